#include "doctor/record/kept.hpp"

#include <algorithm>

#include "doctor/record/redact.hpp"

namespace berth::doctor {
namespace {

/// Whether the path matches the pattern. Patterns come only from the tables in this folder, so the
/// recursion is bounded.
bool matches_path(std::string_view pattern, std::string_view path) {
  if (pattern.empty()) return path.empty();
  if (pattern.front() != '*')
    return !path.empty() && path.front() == pattern.front() &&
           matches_path(pattern.substr(1), path.substr(1));
  const bool any = pattern.starts_with("**");
  pattern.remove_prefix(any ? 2 : 1);
  const std::size_t most = any ? path.size() : std::min(path.find('/'), path.size());
  for (std::size_t taken = 0; taken <= most; ++taken)
    if (matches_path(pattern, path.substr(taken))) return true;
  return false;
}

}  // namespace

const Kept* find_kept(std::span<const Kept> rows, std::string_view path) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Kept& one) {
    return one.is_one != nullptr ? one.is_one(path) : matches_path(one.files, path);
  });
  return row == rows.end() ? nullptr : &*row;
}

std::optional<std::string> redacted_file(std::string_view path, std::string_view text) {
  const bool of_kernel = path.starts_with("/proc/") || path.starts_with("/sys/");
  // A text file that contains NUL bytes is not what it seems, so nothing of it is kept.
  if (!of_kernel && text.find('\0') != std::string_view::npos) return std::nullopt;
  if (const Kept* row = find_kept(kept_of_system(), path)) return row->keep(text);
  if (of_kernel) return std::nullopt;
  if (const Kept* row = find_kept(kept_of_programs(), path)) return row->keep(text);
  // Keep only the part of a file that shows its type: the first line of a script, or the magic
  // number of an ELF file.
  if (text.starts_with("#!")) return std::string(text.substr(0, text.find('\n'))) + "\n";
  if (text ==
      "\x7f"
      "ELF")
    return std::string(text);
  return std::nullopt;
}

}  // namespace berth::doctor
