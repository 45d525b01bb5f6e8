// Small files of the kernel's (/proc, /sys, cgroups) and configuration: bounded, without
// exceptions. A file that is not there is normal here, so the plain readers return optional; where
// the reason matters, read_file says it.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth {

/// Where the outside world is read from. A recorded or simulated machine is other folders, nothing
/// else.
struct Roots {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string dev = "/dev";
  std::string etc = "/etc";
  std::string drm_proc =
      "/proc";  // whose /proc/PID/fdinfo speaks of GPUs (a simulated machine has its own)
};

/// The whole file, at most `limit` bytes. Fails with kNotFound, kPermissionDenied (E0110) or
/// kUnavailable (E0111).
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t limit = 1 << 20);
/// As above; nullopt for every failure. `error_number`, where given, gets errno (0 on success).
[[nodiscard]] std::optional<std::string> slurp(const std::string& path, std::size_t limit = 1 << 16,
                                               int* error_number = nullptr);
/// The first line without surrounding blanks.
[[nodiscard]] std::optional<std::string> read_line(const std::string& path);
/// A decimal (or 0x…) number that is all of the first line.
[[nodiscard]] std::optional<std::int64_t> read_number(const std::string& path);
/// Names in a folder, without "." and "..", sorted; empty where it cannot be read. Not more than
/// `most` are read.
[[nodiscard]] std::vector<std::string> list_folder(const std::string& path,
                                                   std::size_t most = SIZE_MAX);
/// The last part of where a symbolic link points to ("amdgpu" for …/driver).
[[nodiscard]] std::optional<std::string> link_name(const std::string& path);

[[nodiscard]] std::string_view trim(std::string_view text);
/// Splits at every `separator`; empty parts are kept.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
/// The parts would point into a string that is gone: in a range-for it dies before the loop.
template <std::same_as<std::string> Temporary>
std::vector<std::string_view> split(Temporary&& text, char separator) = delete;
/// All of `text` is a decimal or 0x… number.
[[nodiscard]] std::optional<std::int64_t> to_number(std::string_view text);
/// Bytes that are not valid UTF-8, and control characters, become U+FFFD: what comes from other
/// processes is never trusted to be text, and never reaches a terminal or a JSON document as it is.
[[nodiscard]] std::string printable(std::string_view bytes);

}  // namespace berth
