// What a recording keeps of each file that was read: two tables of paths, the only place where a
// file's content can get into a recording. A file with no row here is left out, so a new reader
// leaks nothing until a row says what may leave the machine.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace berth::doctor {

struct Kept {
  std::string_view files;  // "*" stands for a name or a part of one, "**" for any text
  std::optional<std::string> (*keep)(std::string_view text);  // nullopt: nothing
  bool (*is_one)(std::string_view path) = nullptr;  // instead of `files`: the reader's own test
};

/// A row's function from one that returns a text.
template <auto Function>
std::optional<std::string> kept(std::string_view text) {
  return Function(text);
}

[[nodiscard]] inline std::optional<std::string> all_of_it(std::string_view text) {
  return std::string(text);
}

/// Files of the kernel, the hardware and the system. The first row that matches counts.
[[nodiscard]] std::span<const Kept> kept_of_system();
/// Settings of programs and services, and files of packages.
[[nodiscard]] std::span<const Kept> kept_of_programs();

/// The row for a path; nullptr if there is none.
[[nodiscard]] const Kept* find_kept(std::span<const Kept> rows, std::string_view path);

}  // namespace berth::doctor
