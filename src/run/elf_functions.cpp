#include "run/elf_functions.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/descriptor.hpp"

namespace berth::run {
namespace {

// limit for the size of all symbol tables of a file together, in bytes
constexpr std::uint64_t kMostSymbolBytes = 64 << 20;
constexpr std::size_t kMostHeaders = 4096;
constexpr std::size_t kSymbolsAtOnce = 4096;

bool read_at(int fd, std::uint64_t at, void* into, std::size_t size) {
  return at <= static_cast<std::uint64_t>(INT64_MAX) &&
         ::pread(fd, into, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
}

/// Reads a section or program header table of `count` entries. Returns false if the file is
/// damaged.
template <typename Header>
bool read_table(int file, std::uint64_t at, std::size_t count, std::size_t entry_size,
                std::vector<Header>& into) {
  if (count > kMostHeaders || (count > 0 && entry_size != sizeof(Header))) return false;
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

bool is_readable(const Elf64_Ehdr& head) {
  constexpr unsigned char kOrder =
      __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
  return std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_ident[EI_CLASS] == ELFCLASS64 &&
         head.e_ident[EI_DATA] == kOrder && head.e_ident[EI_VERSION] == EV_CURRENT;
}

/// An address to look up. `at`: its index in the list of names.
struct Wanted {
  std::uint64_t address;
  std::size_t at;
};

class SymbolSearch {
 public:
  SymbolSearch(int file, std::vector<Wanted> wanted, std::vector<std::string>& names)
      : file_(file), wanted_(std::move(wanted)), names_(names) {
    std::sort(wanted_.begin(), wanted_.end(),
              [](const Wanted& a, const Wanted& b) { return a.address < b.address; });
  }

  /// Looks up the wanted addresses in a symbol table. Returns false if no address is left to find,
  /// or if the limit is reached.
  bool look_in(const Elf64_Shdr& table, const Elf64_Shdr& strings) {
    if (table.sh_entsize != sizeof(Elf64_Sym)) return true;
    std::vector<Elf64_Sym> symbols;
    for (std::uint64_t from = 0; from < table.sh_size && !wanted_.empty();) {
      const std::uint64_t bytes =
          std::min<std::uint64_t>(table.sh_size - from, kSymbolsAtOnce * sizeof(Elf64_Sym));
      if (bytes > left_) return false;
      left_ -= bytes;
      symbols.resize(static_cast<std::size_t>(bytes / sizeof(Elf64_Sym)));
      if (!read_at(file_, table.sh_offset + from, symbols.data(),
                   symbols.size() * sizeof(Elf64_Sym)))
        return true;
      for (const Elf64_Sym& one : symbols) take(one, strings);
      from += bytes;
    }
    return !wanted_.empty();
  }

 private:
  void take(const Elf64_Sym& symbol, const Elf64_Shdr& strings) {
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) return;
    const auto first = std::lower_bound(
        wanted_.begin(), wanted_.end(), symbol.st_value,
        [](const Wanted& one, std::uint64_t value) { return one.address < value; });
    auto last = first;
    while (last != wanted_.end() && last->address - symbol.st_value < symbol.st_size) ++last;
    if (first == last) return;
    const std::string name = plain_name(name_at(file_, strings, symbol.st_name));
    // Subtract the cost of every name, because reading even an unneeded name takes time.
    left_ -= std::min<std::uint64_t>(left_, kNameCost);
    if (name.empty()) return;
    for (auto one = first; one != last; ++one) names_[one->at] = name;
    wanted_.erase(first, last);
  }

  static constexpr std::uint64_t kNameCost = 4096;
  int file_;
  std::vector<Wanted> wanted_;  // addresses without a name, sorted by address
  std::vector<std::string>& names_;
  std::uint64_t left_ = kMostSymbolBytes;
};

}  // namespace

std::vector<std::string> functions_at(const std::string& path,
                                      const std::vector<std::uint64_t>& offsets) {
  std::vector<std::string> names(offsets.size());
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat about = {};
  Elf64_Ehdr head = {};
  if (!file || ::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode) ||
      !read_at(file.get(), 0, &head, sizeof head) || !is_readable(head))
    return names;
  std::vector<Elf64_Phdr> segments;
  std::vector<Elf64_Shdr> sections;
  if (!read_table(file.get(), head.e_phoff, head.e_phnum, head.e_phentsize, segments) ||
      !read_table(file.get(), head.e_shoff, head.e_shnum, head.e_shentsize, sections))
    return names;
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const auto holds = [&](const Elf64_Phdr& one) {
      return one.p_type == PT_LOAD && offsets[i] >= one.p_offset &&
             offsets[i] - one.p_offset < one.p_filesz;
    };
    const auto found = std::find_if(segments.begin(), segments.end(), holds);
    if (found != segments.end())
      wanted.push_back({offsets[i] - found->p_offset + found->p_vaddr, i});
  }
  SymbolSearch search(file.get(), std::move(wanted), names);
  for (const Elf64_Shdr& section : sections) {
    const bool has_names = section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM;
    if (!has_names || section.sh_link >= sections.size()) continue;
    if (!search.look_in(section, sections[section.sh_link])) break;
  }
  return names;
}

std::string plain_name(std::string_view symbol) {
  std::string_view rest = symbol;
  const bool is_nested = rest.starts_with("_ZN");
  if (!is_nested && !rest.starts_with("_Z")) return std::string(symbol);
  rest.remove_prefix(is_nested ? 3 : 2);
  if (is_nested && rest.starts_with('K')) rest.remove_prefix(1);
  std::string name;
  do {
    std::size_t length = 0;
    while (!rest.empty() && rest.front() >= '0' && rest.front() <= '9' && length < symbol.size()) {
      length = length * 10 + static_cast<std::size_t>(rest.front() - '0');
      rest.remove_prefix(1);
    }
    if (length == 0 || length > rest.size()) return std::string(symbol);
    name += (name.empty() ? "" : "::") + std::string(rest.substr(0, length));
    rest.remove_prefix(length);
  } while (is_nested && !rest.starts_with('E'));
  return rest.starts_with('I') ? std::string(symbol) : name;
}

}  // namespace berth::run
