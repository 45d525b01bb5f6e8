// Writes whole texts to descriptors and files.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace berth {

/// Writes all bytes. On an error, returns false and sets errno.
[[nodiscard]] bool write_all(int descriptor, std::string_view bytes);

/// Writes a temporary file beside `path` and renames it to `path`, so that a reader sees either the
/// old or the new content. Follows no link. The file's permissions are exactly `mode`, whatever the
/// umask is. On an error, returns false, sets errno, and leaves the old file unchanged.
[[nodiscard]] bool replace_file(const std::string& path, std::string_view bytes, mode_t mode);

/// Waits until a file, or the list of names in a folder, is stored on the disk and so survives a
/// power failure. On an error, returns false and sets errno.
[[nodiscard]] bool sync_path(const std::string& path);

}  // namespace berth
