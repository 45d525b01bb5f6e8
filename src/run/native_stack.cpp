#include "run/native_stack.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "base/descriptor.hpp"
#include "base/file.hpp"

namespace berth::run {
namespace {

constexpr std::size_t kMostFrames = 16, kMostCandidates = 64;
constexpr std::size_t kStackBytes = 64 << 10;
constexpr std::size_t kMostMapBytes = 16 << 20;
constexpr std::uint64_t kMostSymbolBytes = 64 << 20;
constexpr int kMostSections = 4096;

struct Mapping {
  std::uint64_t begin = 0, end = 0, offset = 0;
  std::string path;
};

std::optional<std::uint64_t> hexadecimal(std::string_view word) {
  if (word.starts_with("0x")) word.remove_prefix(2);
  if (word.empty() || word.size() > 16) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : word) {
    const auto at = std::string_view("0123456789abcdef").find(c);
    if (at == std::string_view::npos) return std::nullopt;
    value = value << 4U | at;
  }
  return value;
}

/// The executable mappings of files.
std::vector<Mapping> code_of(pid_t pid) {
  std::vector<Mapping> found;
  const std::string path = "/proc/" + std::to_string(pid) + "/maps";
  const std::string all = slurp(path, kMostMapBytes).value_or("");
  for (const std::string_view line : split(all, '\n')) {
    const auto words = split(line, ' ');
    const auto slash = line.find('/');
    if (words.size() < 6 || words[1].size() != 4 || words[1][2] != 'x' || slash == line.npos)
      continue;
    const auto dash = words[0].find('-');
    const auto begin = hexadecimal(words[0].substr(0, dash));
    const auto end = dash == words[0].npos ? begin : hexadecimal(words[0].substr(dash + 1));
    const auto offset = hexadecimal(words[2]);
    if (begin && end && offset)
      found.push_back({*begin, *end, *offset, std::string(line.substr(slash))});
  }
  return found;
}

const Mapping* mapping_of(const std::vector<Mapping>& code, std::uint64_t address) {
  for (const Mapping& one : code)
    if (address >= one.begin && address < one.end) return &one;
  return nullptr;
}

bool read_at(int fd, std::uint64_t at, void* into, std::size_t size) {
  return at <= static_cast<std::uint64_t>(INT64_MAX) &&
         ::pread(fd, into, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
}

/// Whether the instruction before a return address is a call.
bool is_after_call([[maybe_unused]] int memory, [[maybe_unused]] std::uint64_t address) {
#if defined(__x86_64__)
  std::array<unsigned char, 7> before{};
  if (address < before.size() ||
      !read_at(memory, address - before.size(), before.data(), before.size()))
    return false;
  if (before[2] == 0xe8) return true;  // call rel32
  // call through a register or memory: ff /2, with 0, 1 or 4 bytes of displacement, and a SIB byte
  for (const std::size_t length : {2U, 3U, 4U, 6U, 7U})
    if (before[7 - length] == 0xff && (before[8 - length] >> 3U & 7U) == 2U) return true;
#endif
  return false;
}

std::string demangled(const std::string& name) {
  int status = -1;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || !text) return name;
  // Without arguments: "c10d::ProcessGroupGloo::allreduce"
  const std::string_view whole(text.get());
  return std::string(whole.substr(0, whole.find('(')));
}

/// Reads a section or program header table of `count` entries; false if the file is damaged.
template <typename Header>
bool read_table(int file, std::uint64_t at, std::size_t count, std::vector<Header>& into) {
  if (count > kMostSections) return false;
  into.resize(count);
  return count == 0 || read_at(file, at, into.data(), count * sizeof(Header));
}

std::string name_at(int file, const Elf64_Shdr& strings, std::uint32_t at) {
  std::array<char, 1024> room{};
  if (at >= strings.sh_size) return "";
  const auto size = std::min<std::uint64_t>(room.size() - 1, strings.sh_size - at);
  if (!read_at(file, strings.sh_offset + at, room.data(), static_cast<std::size_t>(size)))
    return "";
  return room.data();
}

}  // namespace

std::vector<std::string> functions_at(const std::string& path,
                                      const std::vector<std::uint64_t>& offsets) {
  std::vector<std::string> names(offsets.size());
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat about = {};
  Elf64_Ehdr head = {};
  if (!file || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode) ||
      !read_at(file.get(), 0, &head, sizeof head) ||
      std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
    return names;
  std::vector<Elf64_Phdr> segments;
  std::vector<Elf64_Shdr> sections;
  if (!read_table(file.get(), head.e_phoff, head.e_phnum, segments) ||
      !read_table(file.get(), head.e_shoff, head.e_shnum, sections))
    return names;
  std::vector<std::optional<std::uint64_t>> addresses(offsets.size());
  for (std::size_t i = 0; i < offsets.size(); ++i)
    for (const Elf64_Phdr& one : segments)
      if (one.p_type == PT_LOAD && offsets[i] >= one.p_offset &&
          offsets[i] - one.p_offset < one.p_filesz)
        addresses[i] = offsets[i] - one.p_offset + one.p_vaddr;
  for (const Elf64_Shdr& section : sections) {
    const bool has_names = section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM;
    if (!has_names || section.sh_size > kMostSymbolBytes || section.sh_link >= sections.size())
      continue;
    std::vector<Elf64_Sym> symbols(static_cast<std::size_t>(section.sh_size / sizeof(Elf64_Sym)));
    if (!read_at(file.get(), section.sh_offset, symbols.data(), symbols.size() * sizeof(Elf64_Sym)))
      continue;
    for (std::size_t i = 0; i < offsets.size(); ++i)
      for (const Elf64_Sym& one : symbols) {
        if (!names[i].empty()) break;
        if (addresses[i] && ELF64_ST_TYPE(one.st_info) == STT_FUNC &&
            *addresses[i] >= one.st_value && *addresses[i] - one.st_value < one.st_size)
          names[i] = demangled(name_at(file.get(), sections[section.sh_link], one.st_name));
      }
  }
  return names;
}

std::vector<NativeFrame> native_stack(pid_t pid, pid_t thread) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const auto said = slurp(folder + "/task/" + std::to_string(thread) + "/syscall").value_or("");
  const auto words = split(std::string_view(said).substr(0, said.find('\n')), ' ');
  if (words.size() < 3) return {};  // it runs, or is another user's
  const auto stack = hexadecimal(words[words.size() - 2]);
  const auto instruction = hexadecimal(words.back());
  const Descriptor memory(::open((folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  if (!stack || !instruction) return {};
  const auto code = code_of(pid);
  struct Place {
    const Mapping* in;
    std::uint64_t address;
  };
  std::vector<Place> places;
  if (const Mapping* in = mapping_of(code, *instruction)) places.push_back({in, *instruction});
  const bool is_exact = !places.empty();
  std::vector<std::uint64_t> values(kStackBytes / sizeof(std::uint64_t));
  const ssize_t got = memory && *stack <= static_cast<std::uint64_t>(INT64_MAX)
                          ? ::pread(memory.get(), values.data(), kStackBytes,
                                    static_cast<off_t>(*stack & ~std::uint64_t{7}))
                          : -1;
  values.resize(got > 0 ? static_cast<std::size_t>(got) / sizeof(std::uint64_t) : 0);
  for (const std::uint64_t value : values) {
    if (places.size() >= kMostCandidates) break;
    const Mapping* in = mapping_of(code, value);
    // The return address belongs to the instruction before it.
    if (in != nullptr && is_after_call(memory.get(), value)) places.push_back({in, value - 1});
  }
  std::map<std::string, std::vector<std::size_t>> by_file;
  for (std::size_t i = 0; i < places.size(); ++i) by_file[places[i].in->path].push_back(i);
  std::vector<std::string> names(places.size());
  for (const auto& [path, all] : by_file) {
    std::vector<std::uint64_t> offsets;
    for (const std::size_t i : all)
      offsets.push_back(places[i].address - places[i].in->begin + places[i].in->offset);
    auto found = functions_at(folder + "/root" + path, offsets);
    for (std::size_t i = 0; i < all.size(); ++i) names[all[i]] = std::move(found[i]);
  }
  std::vector<NativeFrame> frames;
  for (std::size_t i = 0; i < places.size() && frames.size() < kMostFrames; ++i) {
    const bool is_first = i == 0 && is_exact;
    if (names[i].empty() && !is_first) continue;
    const std::string& path = places[i].in->path;
    NativeFrame frame{path.substr(path.rfind('/') + 1), names[i], is_first};
    if (!frames.empty() && frames.back().function == frame.function) continue;
    frames.push_back(std::move(frame));
  }
  return frames;
}

std::string native_lines(const std::vector<NativeFrame>& frames) {
  std::string out;
  for (const NativeFrame& one : frames)
    out +=
        (out.empty() ? "" : "\n") + one.library + " " + (one.function.empty() ? "?" : one.function);
  return out;
}

}  // namespace berth::run
