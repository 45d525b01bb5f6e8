// What a recording keeps of each file that was read: two tables of paths. A file's content gets
// into a recording only through a row of these tables. A file without a row is left out, so a new
// reader of files leaks nothing until someone adds a row.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/text_parts.hpp"

namespace berth::doctor {

struct Kept {
  std::string_view files;  // "*" stands for a name or a part of it, "**" for any text
  /// what to keep of the content; nullopt: the file is left out
  std::optional<std::string> (*keep)(std::string_view text);
  /// If this function is set, the row applies to the paths for which it returns true, and `files`
  /// is not used.
  bool (*is_one)(std::string_view path) = nullptr;
};

/// A function of the type of Kept::keep that calls `Function`, which never leaves a file out.
template <auto Function>
std::optional<std::string> kept(std::string_view text) {
  return Function(text);
}

/// The lines for which `keep` returns true. `keep` gets each line without the blanks around it.
template <typename Keep>
std::string lines_of(std::string_view text, Keep keep) {
  std::string redacted;
  for (const std::string_view line : split(text, '\n'))
    if (!line.empty() && keep(trim(line))) redacted += std::string(line) + "\n";
  return redacted;
}

template <auto& Begin>
std::string lines_that_begin(std::string_view text) {
  return lines_of(text, [](std::string_view line) { return line.starts_with(Begin); });
}

[[nodiscard]] inline std::optional<std::string> all_of_it(std::string_view text) {
  return std::string(text);
}

/// Rows for files of the kernel, the hardware and the system. The first row that matches counts.
[[nodiscard]] std::span<const Kept> kept_of_system();
/// Rows for settings of programs and services, and for files of packages.
[[nodiscard]] std::span<const Kept> kept_of_programs();

/// The row of `rows` for a path; nullptr if there is none.
[[nodiscard]] const Kept* find_kept(std::span<const Kept> rows, std::string_view path);

}  // namespace berth::doctor
