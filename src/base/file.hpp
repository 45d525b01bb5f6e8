// Reads small kernel files (/proc, /sys, cgroups) and configuration: with size limits, without
// exceptions. Missing files are normal here, so the plain readers return optional; read_file also
// returns the reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/text_parts.hpp"

namespace berth {

/// The folders that describe the machine. For a recorded or simulated machine, only these folders
/// differ.
struct Roots {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string dev = "/dev";
  std::string etc = "/etc";
  std::string drm_proc =
      "/proc";  // the folder whose PID/fdinfo lists GPU use (a simulated machine has its own)
};

/// The whole file, at most `limit` bytes. Fails with kNotFound, kPermissionDenied (E0110) or
/// kUnavailable (E0111).
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t limit = 1 << 20);
/// Like read_file(), but returns nullopt on every failure. `error_number`, if given, gets errno (0
/// on success).
[[nodiscard]] std::optional<std::string> slurp(const std::string& path, std::size_t limit = 1 << 16,
                                               int* error_number = nullptr);
/// Reads a file from a folder that other users can write to. Returns nullopt, without blocking, if
/// it is a link, a pipe, a device or a folder. `from`: offset of the first byte.
[[nodiscard]] std::optional<std::string> slurp_regular(const std::string& path, std::size_t limit,
                                                       std::int64_t from = 0);
/// The first line without surrounding whitespace.
[[nodiscard]] std::optional<std::string> read_line(const std::string& path);
/// The first line as a decimal (or 0x…) number; nullopt if it is anything else.
[[nodiscard]] std::optional<std::int64_t> read_number(const std::string& path);
/// Names in a folder, sorted, without "." and ".."; empty if it cannot be read. Reads at most
/// `most` names.
[[nodiscard]] std::vector<std::string> list_folder(const std::string& path,
                                                   std::size_t most = SIZE_MAX);
/// The target of a symbolic link, as it is written.
[[nodiscard]] std::optional<std::string> link_target(const std::string& path);
/// The last component of a symbolic link's target: "amdgpu" for the link …/driver.
[[nodiscard]] std::optional<std::string> link_name(const std::string& path);

}  // namespace berth
