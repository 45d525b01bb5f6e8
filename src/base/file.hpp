// Reads small kernel files (/proc, /sys, cgroups) and configuration files, up to a size limit.
// Missing files are normal here, so most functions return an optional; read_file() also returns the
// reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/text_parts.hpp"

namespace berth {

/// The root folders of the files that describe the machine. A recorded or simulated machine has
/// other root folders.
struct Roots {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string dev = "/dev";
  std::string etc = "/etc";
  std::string drm_proc =
      "/proc";  // PID/fdinfo in it shows each process's GPU use; a simulation has another folder
};

/// Reads a file, but only the first `limit` bytes if it is longer. Fails with kNotFound (E0110),
/// kPermissionDenied (E0110) or kUnavailable (E0111).
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t limit = 1 << 20);
/// Like read_file(), but returns nullopt on every failure. `error_number`, if given, gets errno (0
/// on success).
[[nodiscard]] std::optional<std::string> slurp(const std::string& path, std::size_t limit = 1 << 16,
                                               int* error_number = nullptr);
/// Reads a file in a folder that other users can write to. If the path is a link, a pipe, a device
/// or a folder, returns nullopt without blocking. `from` is the offset of the first byte to read.
[[nodiscard]] std::optional<std::string> slurp_regular(const std::string& path, std::size_t limit,
                                                       std::int64_t from = 0);
/// The first line without surrounding whitespace.
[[nodiscard]] std::optional<std::string> read_line(const std::string& path);
/// The first line as a number, decimal or hexadecimal (0x…). nullopt if the line is not a number.
[[nodiscard]] std::optional<std::int64_t> read_number(const std::string& path);
/// The sorted names in a folder, without "." and "..". Empty if the folder cannot be read. Returns
/// at most `most` names.
[[nodiscard]] std::vector<std::string> list_folder(const std::string& path,
                                                   std::size_t most = SIZE_MAX);
/// The target of a symbolic link, unresolved: it may be a relative path.
[[nodiscard]] std::optional<std::string> link_target(const std::string& path);
/// The last component of a symbolic link's target: "amdgpu" for the link …/driver.
[[nodiscard]] std::optional<std::string> link_name(const std::string& path);

}  // namespace berth
