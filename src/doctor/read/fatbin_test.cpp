// The layout of these files was compared with that of libraries built by nvcc of CUDA 11, 12 and
// 13.
#include "doctor/read/fatbin.hpp"
#include "doctor/read/collectors.hpp"

#include <doctest/doctest.h>
#include <elf.h>

#include <cerrno>
#include <cstring>

#include "doctor/facts/python.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;

namespace fatbin_test {
namespace {

template <typename T>
void put(std::string& file, T value) {
  file.append(reinterpret_cast<const char*>(&value), sizeof value);
}

struct Code {
  std::uint16_t kind;  // 1: PTX; 2: SASS
  std::uint32_t capability;
  std::uint32_t header_size = 64;
};

std::string container(const std::vector<Code>& all) {
  std::string pieces;
  for (const Code& one : all) {
    std::string piece;
    put<std::uint16_t>(piece, one.kind);
    put<std::uint16_t>(piece, 0x0101);
    put<std::uint32_t>(piece, one.header_size);
    put<std::uint64_t>(piece, 24);  // size of the code
    piece.append(12, '\0');
    put<std::uint32_t>(piece, one.capability);
    piece.append(one.header_size - piece.size() + 24, '\x5a');
    pieces += piece;
  }
  std::string out;
  put<std::uint32_t>(out, 0xba55ed50);
  put<std::uint16_t>(out, 1);
  put<std::uint16_t>(out, 16);
  put<std::uint64_t>(out, pieces.size());
  return out + pieces;
}

/// An ELF file that has a section `name` and a section name table.
std::string library(const std::string& code, const char* name = ".nv_fatbin",
                    std::uint64_t flags = SHF_ALLOC) {
  const std::string names = std::string("\0", 1) + name + std::string("\0.shstrtab\0", 11);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 2;
  header.e_shoff = sizeof header + code.size() + names.size();
  Elf64_Shdr none{}, gpu{}, strings{};
  gpu.sh_name = 1;
  gpu.sh_type = strings.sh_type = SHT_PROGBITS;
  gpu.sh_flags = flags;
  gpu.sh_offset = sizeof header;
  gpu.sh_size = code.size();
  strings.sh_name = static_cast<std::uint32_t>(2 + std::strlen(name));
  strings.sh_offset = sizeof header + code.size();
  strings.sh_size = names.size();
  std::string file;
  put(file, header);
  file += code + names;
  put(file, none);
  put(file, gpu);
  put(file, strings);
  return file;
}

Fact<GpuCode> read(const std::string& file) {
  return gpu_code([&](std::uint64_t offset, void* into, std::size_t size) {
    if (offset > file.size() || file.size() - offset < size) return false;
    std::memcpy(into, file.data() + offset, size);
    return true;
  });
}

using Numbers = std::vector<unsigned>;

}  // namespace

TEST_CASE("the GPU architectures of a library are read from all its device code") {
  const auto code = read(library(container({{2, 80}, {2, 90}, {1, 90, 72}}) +
                                 container({{2, 80}, {2, 120, 112}, {1, 121, 80}})));
  REQUIRE(code);
  CHECK(code->sass == Numbers{80, 90, 120});
  CHECK(code->ptx == Numbers{90, 121});
}

TEST_CASE("fatbin containers may be padded with zeros") {
  const auto code =
      read(library(container({{2, 80}}) + std::string(24, '\0') + container({{2, 87}})));
  REQUIRE(code);
  CHECK(code->sass == Numbers{80, 87});
}

TEST_CASE("a file without device code, or with a wrong header, has no architectures") {
  CHECK(read("").is_absent());
  CHECK(read("\x7f"
             "ELF")
            .is_absent());
  CHECK(read(library(container({{2, 80}}), ".nv_fatbit")).is_absent());
  CHECK(read(library(container({{2, 80}}), ".nv_fatbin", SHF_COMPRESSED)).is_absent());
  CHECK(read(library("")).is_absent());
  CHECK(read(library(std::string(64, 'x'))).is_absent());
  CHECK(read(library(container({{2, 0}}))).is_absent());
  const std::string whole = library(container({{2, 80}, {2, 90}}));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::string damaged = whole;
    damaged[size] = static_cast<char>(damaged[size] ^ 0xff);
    static_cast<void>(read(damaged));
    CHECK(read(whole.substr(0, size)).is_absent());
  }
}

TEST_CASE("if there are more pieces than the limit, the list counts as incomplete") {
  CHECK(read(library(container(std::vector<Code>(70'000, {2, 80})))).is_unreadable());
}

TEST_CASE("conda-forge's PyTorch lists its architectures, an unrecorded one does not") {
  const berth::system::TemporaryTree folder;
  folder.put("env/conda-meta/pytorch-2.5.1-cuda126_py312h6a4aee4_306.json", "{}");
  folder.put("env/conda-meta/python-3.12.8-h1683364_1_cpython.json", "{}");
  folder.put("env/bin/python", "");
  folder.put("env/lib/python3.12/os.py", "");
  folder.put("env/lib/python3.12/site-packages/torch/version.py",
             "__version__ = '2.5.1.post306'\ncuda = '12.6'\nhip = None\n");
  const auto code = [&] {
    return collect_python(Tree(folder.path), Environment{}, "/env/bin/python").torch_code;
  };
  CHECK(code().is_unreadable());
  folder.put("env/lib/libtorch_cuda.so", "");
  CHECK(code().is_unreadable());
  folder.put("env/lib/libtorch_cuda.so", library(container({{2, 80}, {2, 86}, {1, 90}})));
  REQUIRE(code());
  CHECK(code()->sass == std::vector<std::string>{"8.0", "8.6"});
  CHECK(code()->ptx == "9.0");
}

}  // namespace fatbin_test
