#include "doctor/read/elf.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace berth::doctor {
namespace {

// These limits are far above what linkers produce. Entries beyond a limit are ignored.
constexpr std::size_t kMostHeaders = 512, kMostEntries = 4096, kMostVersions = 4096;
constexpr std::size_t kLongestName = 4096;

/// The dynamic section of a 32-bit or 64-bit little-endian file.
class Dynamic {
 public:
  explicit Dynamic(const ReadAt& read) : read_(read) {}

  bool open() {
    std::array<unsigned char, EI_NIDENT> ident{};
    if (!read_(0, ident.data(), ident.size())) return false;
    if (std::memcmp(ident.data(), ELFMAG, SELFMAG) != 0) return false;
    if (ident[EI_DATA] != ELFDATA2LSB) return false;
    is_64 = ident[EI_CLASS] == ELFCLASS64;
    return is_64 ? open_as<Elf64_Ehdr, Elf64_Phdr, Elf64_Dyn>()
                 : open_as<Elf32_Ehdr, Elf32_Phdr, Elf32_Dyn>();
  }

  /// The value of the first entry whose tag is `tag`.
  [[nodiscard]] std::optional<std::uint64_t> value(std::int64_t tag) const {
    for (const auto& [one, value] : entries)
      if (one == tag) return value;
    return std::nullopt;
  }

  /// A string from the string table; "" if the offset is invalid.
  [[nodiscard]] std::string text(std::uint64_t offset) const {
    const auto table = value(DT_STRTAB);
    const auto size = value(DT_STRSZ);
    if (!table || !size || offset >= *size) return "";
    const auto start = offset_of(*table);
    if (!start) return "";
    std::string found;
    std::uint64_t left = std::min<std::uint64_t>(*size - offset, kLongestName);
    std::uint64_t at = *start + offset;
    std::array<char, 64> part{};
    while (left > 0) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(left, part.size()));
      if (!read_(at, part.data(), n)) return "";
      const auto* end = std::find(part.data(), part.data() + n, '\0');
      found.append(part.data(), static_cast<std::size_t>(end - part.data()));
      if (end != part.data() + n) return found;
      at += n;
      left -= n;
    }
    return "";  // no zero byte ends the string
  }

  /// Converts an address in memory to an offset in the file.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::uint64_t address) const {
    for (const Segment& one : segments_)
      if (address >= one.address && address - one.address < one.size)
        return one.offset + (address - one.address);
    return std::nullopt;
  }

  template <typename T>
  [[nodiscard]] bool read(std::uint64_t offset, T& into) const {
    return read_(offset, &into, sizeof into);
  }

  bool is_64 = true;
  std::uint16_t machine = 0;
  bool executable_stack = false;
  std::string interpreter;
  std::vector<std::pair<std::int64_t, std::uint64_t>> entries;

 private:
  struct Segment {
    std::uint64_t address, offset, size;
  };

  template <typename Header, typename Program, typename Entry>
  bool open_as() {
    Header header{};
    if (!read(0, header) || header.e_phentsize != sizeof(Program)) return false;
    machine = header.e_machine;
    std::optional<Segment> dynamic;
    for (std::size_t i = 0; i < std::min<std::size_t>(header.e_phnum, kMostHeaders); ++i) {
      Program one{};
      if (!read(header.e_phoff + i * sizeof one, one)) return false;
      const Segment segment{one.p_vaddr, one.p_offset, one.p_filesz};
      if (one.p_type == PT_LOAD) segments_.push_back(segment);
      if (one.p_type == PT_DYNAMIC) dynamic = segment;
      if (one.p_type == PT_GNU_STACK) executable_stack = (one.p_flags & PF_X) != 0;
      if (one.p_type == PT_INTERP && one.p_filesz > 1 && one.p_filesz < kLongestName) {
        interpreter.resize(static_cast<std::size_t>(one.p_filesz) - 1);
        if (!read_(one.p_offset, interpreter.data(), interpreter.size())) interpreter.clear();
      }
    }
    if (!dynamic) return false;
    const auto count = std::min<std::uint64_t>(dynamic->size / sizeof(Entry), kMostEntries);
    for (std::uint64_t i = 0; i < count; ++i) {
      Entry one{};
      if (!read(dynamic->offset + i * sizeof one, one) || one.d_tag == DT_NULL) break;
      entries.emplace_back(one.d_tag, one.d_un.d_val);
    }
    return true;
  }

  std::vector<Segment> segments_;
  const ReadAt& read_;
};

std::vector<NeededVersions> needed_versions(const Dynamic& dynamic) {
  std::vector<NeededVersions> found;
  const auto table = dynamic.value(DT_VERNEED);
  auto at = table ? dynamic.offset_of(*table) : std::nullopt;
  std::size_t left = kMostVersions;
  const auto count = dynamic.value(DT_VERNEEDNUM).value_or(0);
  for (std::uint64_t i = 0; at && i < count && left > 0; ++i) {
    Elf64_Verneed one{};  // this structure is the same in 32-bit and 64-bit files
    if (!dynamic.read(*at, one)) break;
    NeededVersions& row = found.emplace_back();
    row.file = dynamic.text(one.vn_file);
    std::uint64_t inner = *at + one.vn_aux;
    for (unsigned j = 0; j < one.vn_cnt && left > 0; ++j, --left) {
      Elf64_Vernaux version{};
      if (!dynamic.read(inner, version)) break;
      row.versions.push_back(dynamic.text(version.vna_name));
      if (version.vna_next == 0) break;
      inner += version.vna_next;
    }
    if (one.vn_next == 0) break;
    *at += one.vn_next;
    --left;
  }
  return found;
}

std::vector<std::string> defined_versions(const Dynamic& dynamic) {
  std::vector<std::string> found;
  const auto table = dynamic.value(DT_VERDEF);
  auto at = table ? dynamic.offset_of(*table) : std::nullopt;
  const auto count =
      std::min<std::uint64_t>(dynamic.value(DT_VERDEFNUM).value_or(0), kMostVersions);
  for (std::uint64_t i = 0; at && i < count; ++i) {
    Elf64_Verdef one{};
    Elf64_Verdaux name{};
    if (!dynamic.read(*at, one) || !dynamic.read(*at + one.vd_aux, name)) break;
    // The entry with VER_FLG_BASE has the object's own name, which is not a symbol version.
    if ((one.vd_flags & VER_FLG_BASE) == 0) found.push_back(dynamic.text(name.vda_name));
    if (one.vd_next == 0) break;
    *at += one.vd_next;
  }
  return found;
}

std::uint32_t gnu_hash(std::string_view name) {
  std::uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

}  // namespace

Fact<Elf> parse_elf(const ReadAt& read) {
  Dynamic dynamic(read);
  if (!dynamic.open()) return {};
  Elf elf;
  elf.is_64 = dynamic.is_64;
  elf.machine = dynamic.machine;
  elf.executable_stack = dynamic.executable_stack;
  elf.interpreter = dynamic.interpreter;
  for (const auto& [tag, value] : dynamic.entries) {
    if (tag == DT_NEEDED) elf.needed.push_back(dynamic.text(value));
    if (tag == DT_FLAGS_1) elf.no_default_folders = (value & DF_1_NODEFLIB) != 0;
  }
  if (const auto at = dynamic.value(DT_SONAME)) elf.soname = dynamic.text(*at);
  if (const auto at = dynamic.value(DT_RUNPATH)) {
    elf.has_runpath = true;
    elf.runpath = dynamic.text(*at);
  } else if (const auto old = dynamic.value(DT_RPATH)) {
    elf.rpath = dynamic.text(*old);
  }
  elf.needed_versions = needed_versions(dynamic);
  elf.defined_versions = defined_versions(dynamic);
  return elf;
}

// Searches for a symbol in the DT_GNU_HASH table. The table has: number of buckets, first symbol,
// bloom filter size and shift; the filter; the buckets; then one word for each symbol. The lowest
// bit of the word is set in the last symbol of a bucket.
std::optional<bool> defines_symbol(const ReadAt& read, std::string_view name) {
  Dynamic dynamic(read);
  if (!dynamic.open() || !dynamic.is_64) return std::nullopt;
  const auto table = dynamic.value(DT_GNU_HASH);
  const auto symbols = dynamic.value(DT_SYMTAB);
  const auto at = table ? dynamic.offset_of(*table) : std::nullopt;
  const auto symbols_at = symbols ? dynamic.offset_of(*symbols) : std::nullopt;
  std::array<std::uint32_t, 4> head{};
  if (!at || !symbols_at || !dynamic.read(*at, head) || head[0] == 0) return std::nullopt;
  const std::uint64_t buckets = *at + sizeof head + std::uint64_t{head[2]} * 8;
  const std::uint64_t chains = buckets + std::uint64_t{head[0]} * 4;
  const std::uint32_t hash = gnu_hash(name);
  std::uint32_t symbol = 0;
  if (!dynamic.read(buckets + std::uint64_t{hash % head[0]} * 4, symbol)) return std::nullopt;
  if (symbol < head[1]) return false;
  for (std::size_t step = 0; step < kMostEntries; ++step, ++symbol) {
    std::uint32_t chain = 0;
    if (!dynamic.read(chains + std::uint64_t{symbol - head[1]} * 4, chain)) return std::nullopt;
    Elf64_Sym one{};
    if ((chain | 1U) == (hash | 1U) &&
        dynamic.read(*symbols_at + std::uint64_t{symbol} * sizeof one, one) &&
        one.st_shndx != SHN_UNDEF && dynamic.text(one.st_name) == name)
      return true;
    if ((chain & 1U) != 0) return false;
  }
  return std::nullopt;
}

// Lists undefined symbols. They precede the symbols in the hash table.
std::vector<std::string> undefined_symbols(const ReadAt& read,
                                           std::span<const std::string_view> beginnings) {
  constexpr std::uint32_t kMostSymbols = 32'768;
  constexpr std::size_t kPart = 256;
  std::vector<std::string> found;
  Dynamic dynamic(read);
  if (!dynamic.open() || !dynamic.is_64) return found;
  const auto table = dynamic.value(DT_GNU_HASH);
  const auto symbols = dynamic.value(DT_SYMTAB);
  const auto at = table ? dynamic.offset_of(*table) : std::nullopt;
  const auto symbols_at = symbols ? dynamic.offset_of(*symbols) : std::nullopt;
  std::array<std::uint32_t, 4> head{};
  if (!at || !symbols_at || !dynamic.read(*at, head)) return found;
  const std::uint32_t count = std::min(head[1], kMostSymbols);
  std::array<Elf64_Sym, kPart> part{};
  for (std::uint32_t from = 1; from < count; from += kPart) {
    const std::size_t n = std::min<std::size_t>(kPart, count - from);
    if (!read(*symbols_at + std::uint64_t{from} * sizeof(Elf64_Sym), part.data(),
              n * sizeof(Elf64_Sym)))
      return found;
    for (std::size_t i = 0; i < n; ++i) {
      if (part[i].st_shndx != SHN_UNDEF || ELF64_ST_BIND(part[i].st_info) != STB_GLOBAL) continue;
      std::string name = dynamic.text(part[i].st_name);
      if (std::any_of(beginnings.begin(), beginnings.end(),
                      [&](std::string_view one) { return name.starts_with(one); }))
        found.push_back(std::move(name));
    }
  }
  return found;
}

}  // namespace berth::doctor
