#include "run/elf_functions.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>

#include "base/descriptor.hpp"
#include "base/file.hpp"

using namespace berth;
using namespace berth::run;

namespace {

/// A copy of the C library, and the offsets in it that belong to one function.
class Library {
 public:
  Library() {
    void* handle = ::dlopen("libc.so.6", RTLD_NOW);
    Dl_info about = {};
    REQUIRE(handle != nullptr);
    REQUIRE(::dladdr(::dlsym(handle, "gnu_get_libc_version"), &about) != 0);
    whole_ = slurp(about.dli_fname, 64 << 20).value_or("");
    REQUIRE(whole_.size() > sizeof head_);
    std::memcpy(&head_, whole_.data(), sizeof head_);
    for (std::size_t i = 0; i < head_.e_shnum; ++i) {
      const auto section = at<Elf64_Shdr>(head_.e_shoff + i * sizeof(Elf64_Shdr));
      if (section.sh_type != SHT_DYNSYM) continue;
      section_ = head_.e_shoff + i * sizeof(Elf64_Shdr);
      const auto strings = at<Elf64_Shdr>(head_.e_shoff + section.sh_link * sizeof(Elf64_Shdr));
      for (std::uint64_t one = section.sh_offset; one < section.sh_offset + section.sh_size;
           one += sizeof(Elf64_Sym)) {
        const char* name = whole_.data() + strings.sh_offset + at<Elf64_Sym>(one).st_name;
        if (std::strcmp(name, "gnu_get_libc_version") == 0) symbol_ = one;
      }
    }
    REQUIRE(symbol_ != 0);
    const auto address = at<Elf64_Sym>(symbol_).st_value;
    for (std::size_t i = 0; i < head_.e_phnum; ++i) {
      const auto one = at<Elf64_Phdr>(head_.e_phoff + i * sizeof(Elf64_Phdr));
      if (one.p_type == PT_LOAD && address >= one.p_vaddr && address - one.p_vaddr < one.p_filesz)
        offset_ = address - one.p_vaddr + one.p_offset;
    }
    std::ofstream(path_, std::ios::binary) << whole_;
  }
  ~Library() { ::unlink(path_.c_str()); }

  [[nodiscard]] const Elf64_Ehdr& head() const { return head_; }
  [[nodiscard]] std::uint64_t section() const { return section_; }
  [[nodiscard]] std::uint64_t symbol() const { return symbol_; }
  [[nodiscard]] std::vector<std::string> names() const {
    return functions_at(path_, {offset_, offset_ + 1, whole_.size() * 2, UINT64_MAX});
  }
  /// Writes this value into the file, reads the names, and restores the file.
  template <typename Value>
  [[nodiscard]] std::vector<std::string> names_with(std::uint64_t where, Value value) const {
    const Descriptor file(::open(path_.c_str(), O_WRONLY));
    const auto to = static_cast<off_t>(where);
    REQUIRE(::pwrite(file.get(), &value, sizeof value, to) == sizeof value);
    auto found = names();
    REQUIRE(::pwrite(file.get(), whole_.data() + where, sizeof value, to) == sizeof value);
    return found;
  }

 private:
  template <typename Record>
  [[nodiscard]] Record at(std::uint64_t where) const {
    Record record;
    REQUIRE(where + sizeof record <= whole_.size());
    std::memcpy(&record, whole_.data() + where, sizeof record);
    return record;
  }
  std::string path_ = "/tmp/berth-elf-" + std::to_string(::getpid());
  std::string whole_;
  Elf64_Ehdr head_ = {};
  std::uint64_t section_ = 0, symbol_ = 0, offset_ = 0;
};

}  // namespace

TEST_CASE("damaged ELF files have no functions") {
  const Library library;
  const std::string name = "gnu_get_libc_version";
  const std::vector<std::string> right{name, name, "", ""}, none(4);
  REQUIRE(library.names() == right);
  const auto byte = static_cast<unsigned char>(0xff);
  for (const std::size_t where :
       {std::size_t{0}, std::size_t{EI_CLASS}, std::size_t{EI_DATA}, std::size_t{EI_VERSION},
        offsetof(Elf64_Ehdr, e_phoff) + 7, offsetof(Elf64_Ehdr, e_shoff) + 7,
        offsetof(Elf64_Ehdr, e_phnum) + 1, offsetof(Elf64_Ehdr, e_shnum) + 1,
        offsetof(Elf64_Ehdr, e_phentsize), offsetof(Elf64_Ehdr, e_shentsize)}) {
    INFO("byte ", where);
    CHECK(library.names_with(where, byte) == none);
  }
  const auto section = library.section();
  CHECK(library.names_with(section + offsetof(Elf64_Shdr, sh_offset), UINT64_MAX) == none);
  CHECK(library.names_with(section + offsetof(Elf64_Shdr, sh_offset), UINT64_MAX / 2) == none);
  CHECK(library.names_with(section + offsetof(Elf64_Shdr, sh_entsize), std::uint64_t{1}) == none);
  CHECK(library.names_with(section + offsetof(Elf64_Shdr, sh_link), UINT32_MAX) == none);
  CHECK(library.names_with(section + offsetof(Elf64_Shdr, sh_size), std::uint64_t{23}) == none);
  const auto symbol = library.symbol();
  CHECK(library.names_with(symbol + offsetof(Elf64_Sym, st_name), UINT32_MAX) == none);
  CHECK(library.names_with(symbol + offsetof(Elf64_Sym, st_size), std::uint64_t{0}) == none);
  CHECK(library.names_with(symbol + offsetof(Elf64_Sym, st_value), UINT64_MAX) == none);
  CHECK(library.names() == right);  // each damaged value was restored
  CHECK(functions_at("/dev/zero", {1}) == std::vector<std::string>(1));
  CHECK(functions_at("/no/such", {1}) == std::vector<std::string>(1));
}

TEST_CASE("a file with thousands of large symbol tables costs no more than one") {
  constexpr std::uint64_t kTable = 64 << 20;
  constexpr std::uint16_t kSections = 4000;
  Elf64_Ehdr head = {};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64, head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_ident[EI_VERSION] = EV_CURRENT;
  head.e_phoff = sizeof head, head.e_phnum = 1, head.e_phentsize = sizeof(Elf64_Phdr);
  head.e_shoff = 4096, head.e_shnum = kSections, head.e_shentsize = sizeof(Elf64_Shdr);
  Elf64_Phdr segment = {};
  segment.p_type = PT_LOAD, segment.p_filesz = kTable;
  std::vector<Elf64_Shdr> sections(kSections);
  for (Elf64_Shdr& one : sections) {
    one.sh_type = SHT_SYMTAB, one.sh_entsize = sizeof(Elf64_Sym);
    one.sh_offset = 1 << 20, one.sh_size = kTable;
  }
  const std::string path = "/tmp/berth-elf-large-" + std::to_string(::getpid());
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
  const auto put = [&](const void* bytes, std::size_t size, off_t where) {
    REQUIRE(::pwrite(file.get(), bytes, size, where) == static_cast<ssize_t>(size));
  };
  REQUIRE(::ftruncate(file.get(), kTable * 2) == 0);
  put(&head, sizeof head, 0);
  put(&segment, sizeof segment, sizeof head);
  put(sections.data(), sections.size() * sizeof(Elf64_Shdr), 4096);
  const auto start = std::chrono::steady_clock::now();
  CHECK(functions_at(path, {1}) == std::vector<std::string>(1));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  ::unlink(path.c_str());
}

TEST_CASE("only plain C++ names are read") {
  CHECK(plain_name("poll") == "poll");
  CHECK(plain_name("_Z5solvei") == "solve");
  CHECK(plain_name("_ZN4c10d16ProcessGroupGloo9allreduceERSt6vectorIN2at6TensorESaIS3_EE") ==
        "c10d::ProcessGroupGloo::allreduce");
  CHECK(plain_name("_ZNK2at6Tensor3dimEv") == "at::Tensor::dim");
  for (const char* other : {"_Z", "_ZN", "_ZNK", "_ZN4c10d", "_ZN99aE", "_ZNSt6threadD1Ev",
                            "_Z3fooIiEvT_", "_ZN1aC1Ev", "_ZN0E", "_Z99999999999999999999a"})
    CHECK(plain_name(other) == other);
}
