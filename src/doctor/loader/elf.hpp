// What the loader reads of an ELF file: its dynamic section. A few hundred bytes are read of a file
// of gigabytes; every offset in it may be a lie.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/fact.hpp"

namespace berth::doctor {

/// Reads exactly `size` bytes at `offset`; false where the file does not reach.
using ReadAt = std::function<bool(std::uint64_t offset, void* into, std::size_t size)>;

/// Versions that an object needs of a library ("GLIBC_2.34" of "libc.so.6").
struct NeededVersions {
  std::string file;
  std::vector<std::string> versions;
};

struct Elf {
  bool is_64 = true;
  std::uint16_t machine = 0;  // EM_X86_64 is 62, EM_AARCH64 183
  std::string interpreter;    // of a program; "" a library
  std::string soname;
  std::vector<std::string> needed;
  std::string rpath, runpath;  // as written, colon separated; rpath is "" where runpath counts
  bool has_runpath = false;
  bool no_default_folders = false;  // DF_1_NODEFLIB
  bool executable_stack = false;    // it asks for a stack that may be executed
  std::vector<NeededVersions> needed_versions;
  std::vector<std::string> defined_versions;
};

/// Absent: no ELF file, or one without a dynamic section. What cannot be true in it is left out.
[[nodiscard]] Fact<Elf> parse_elf(const ReadAt& read);
/// Whether the object defines this symbol, by its hash table; nullopt where it has none.
[[nodiscard]] std::optional<bool> defines_symbol(const ReadAt& read, std::string_view name);
/// Names that begin so and that the object wants from others, weak ones left out. At most some
/// thousand are looked at; none where the object has no hash table.
[[nodiscard]] std::vector<std::string> undefined_symbols(
    const ReadAt& read, std::span<const std::string_view> beginnings);

}  // namespace berth::doctor
