// Reads the dynamic section of an ELF file, which has all that the loader needs. Reads only a few
// hundred bytes, even of huge files. Every offset in the file is untrusted.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/fact.hpp"

namespace berth::doctor {

/// Reads exactly `size` bytes at `offset`; false if the file is too short.
using ReadAt = std::function<bool(std::uint64_t offset, void* into, std::size_t size)>;

/// Symbol versions that an object needs from a library ("GLIBC_2.34" of "libc.so.6").
struct NeededVersions {
  std::string file;
  std::vector<std::string> versions;
};

struct Elf {
  bool is_64 = true;
  // CPU architecture: 62 is x86-64 (EM_X86_64), 183 is AArch64 (EM_AARCH64)
  std::uint16_t machine = 0;
  std::string interpreter;  // path of the loader, for a program; "" for a library
  std::string soname;
  std::vector<std::string> needed;
  std::string rpath,
      runpath;  // folders separated by colons; if there is a runpath, the rpath is empty
  bool has_runpath = false;
  // the loader must not search its default folders (DF_1_NODEFLIB)
  bool no_default_folders = false;
  bool executable_stack = false;  // the object requires an executable stack
  std::vector<NeededVersions> needed_versions;
  std::vector<std::string> defined_versions;
};

/// Parses an ELF file. Absent: the file is not an ELF file, or has no dynamic section. Invalid
/// entries are ignored.
[[nodiscard]] Fact<Elf> parse_elf(const ReadAt& read);
/// Whether the object defines this symbol, according to its hash table; nullopt if it has no usable
/// table.
[[nodiscard]] std::optional<bool> defines_symbol(const ReadAt& read, std::string_view name);
/// Undefined, non-weak symbols that start with one of `beginnings`. Checks at most the first 32,768
/// symbols; returns no symbols if the object has no hash table.
[[nodiscard]] std::vector<std::string> undefined_symbols(
    const ReadAt& read, std::span<const std::string_view> beginnings);

}  // namespace berth::doctor
