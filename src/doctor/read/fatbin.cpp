#include "doctor/read/fatbin.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

namespace berth::doctor {
namespace {

// Limits for untrusted files. PyTorch's largest library has only a few thousand pieces of code.
constexpr std::size_t kMostSections = 4096, kMostPieces = 65'536;
constexpr std::uint32_t kMagic = 0xba55ed50;
constexpr std::uint16_t kPtx = 1;
// Limits for a compute capability without its dot, such as 86. nvcc has never written one below 30
// in this format.
constexpr std::uint32_t kLowest = 20, kHighest = 999;

/// The header of the pieces of code that one compilation produced.
struct Container {
  std::uint32_t magic = 0;
  std::uint16_t version = 0, header_size = 0;
  std::uint64_t size = 0;  // size of the data after the header
};
static_assert(sizeof(Container) == 16);

/// The header of one piece of code. In newer versions of the format, more fields follow.
struct Piece {
  std::uint16_t kind = 0, version = 0;
  std::uint32_t header_size = 0;
  std::uint64_t size = 0;  // size of the code after the header
  std::array<std::uint32_t, 3> other{};
  std::uint32_t capability = 0;
};
static_assert(sizeof(Piece) == 32);

struct Section {
  std::uint64_t offset = 0, size = 0;
};

template <typename T>
bool read_as(const ReadAt& read, std::uint64_t offset, T& into) {
  return read(offset, &into, sizeof into);
}

std::vector<Section> code_sections(const ReadAt& read) {
  std::vector<Section> found;
  Elf64_Ehdr header{};
  if (!read_as(read, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_shentsize != sizeof(Elf64_Shdr))
    return found;
  const auto section = [&](std::uint64_t index, Elf64_Shdr& into) {
    return read_as(read, header.e_shoff + index * sizeof into, into);
  };
  Elf64_Shdr names{};
  if (!section(header.e_shstrndx, names)) return found;
  constexpr std::string_view kName = ".nv_fatbin";
  for (std::size_t i = 0; i < std::min<std::size_t>(header.e_shnum, kMostSections); ++i) {
    Elf64_Shdr one{};
    std::array<char, kName.size() + 1> name{};
    if (!section(i, one)) return found;
    // A section that is compressed as a whole, as debug sections can be, cannot be read.
    if (one.sh_type != SHT_PROGBITS || (one.sh_flags & SHF_COMPRESSED) != 0) continue;
    if (read_as(read, names.sh_offset + one.sh_name, name) && name.back() == '\0' &&
        std::string_view(name.data(), kName.size()) == kName)
      found.push_back({one.sh_offset, one.sh_size});
  }
  return found;
}

class Pieces {
 public:
  explicit Pieces(const ReadAt& read) : read_(read) {}

  /// Returns false if the data is not GPU code, or is truncated.
  bool section(const Section& section) {
    std::uint64_t at = 0;
    while (section.size - at >= sizeof(Container)) {
      Container one;
      if (!read_as(read_, section.offset + at, one)) return false;
      if (one.magic == 0) {  // padding before the next container
        at += 8;
        if (++seen_ > kMostPieces) return true;
        continue;
      }
      if (one.magic != kMagic || one.header_size < sizeof one) return false;
      at += one.header_size;
      if (at > section.size || one.size > section.size - at) return false;
      if (!container({section.offset + at, one.size})) return false;
      if (is_too_many()) return true;
      at += one.size;
    }
    return true;
  }

  [[nodiscard]] bool is_too_many() const { return seen_ > kMostPieces; }
  [[nodiscard]] GpuCode found() const {
    return {{sass_.begin(), sass_.end()}, {ptx_.begin(), ptx_.end()}};
  }

 private:
  bool container(const Section& content) {
    std::uint64_t at = 0;
    while (content.size - at >= sizeof(Piece)) {
      if (++seen_ > kMostPieces) return true;
      Piece one;
      if (!read_as(read_, content.offset + at, one) || one.header_size < sizeof one) return false;
      if (one.capability < kLowest || one.capability > kHighest) return false;
      (one.kind == kPtx ? ptx_ : sass_).insert(one.capability);
      at += one.header_size;
      if (at > content.size || one.size > content.size - at) return false;
      at += one.size;
    }
    return true;
  }

  const ReadAt& read_;
  std::set<unsigned> sass_, ptx_;
  std::size_t seen_ = 0;
};

}  // namespace

Fact<GpuCode> gpu_code(const ReadAt& read) {
  Pieces pieces(read);
  for (const Section& one : code_sections(read))
    if (!pieces.section(one)) return {};
  if (pieces.is_too_many()) return Unreadable{".nv_fatbin", E2BIG};
  GpuCode found = pieces.found();
  if (found.sass.empty() && found.ptx.empty()) return {};
  return found;
}

}  // namespace berth::doctor
