// Writes whole texts to descriptors and files.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace berth {

/// Writes all bytes. False on an error, with errno.
[[nodiscard]] bool write_all(int descriptor, std::string_view bytes);

/// Writes a temporary file beside `path` and renames it to `path`, so that a reader sees either the
/// old or the new content. Follows no link. The file gets exactly the permissions `mode`,
/// independent of the umask. False on an error, with errno; the old file is then unchanged.
[[nodiscard]] bool replace_file(const std::string& path, std::string_view bytes, mode_t mode);

/// Waits until a file, or the names in a folder, are on the disk, so that they survive a power
/// failure. False on an error, with errno.
[[nodiscard]] bool sync_path(const std::string& path);

}  // namespace berth
