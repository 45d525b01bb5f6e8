// Writes whole texts to descriptors and files.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace berth {

/// Writes all bytes. False on an error, with errno.
[[nodiscard]] bool write_all(int descriptor, std::string_view bytes);

/// Writes a file of its own beside `path` and renames it, so that a reader sees all of the new
/// content or none. No link is followed. `mode`: the file's permissions, whatever the umask is.
/// False on an error, with errno; the old file stays then.
[[nodiscard]] bool replace_file(const std::string& path, std::string_view bytes, mode_t mode);

}  // namespace berth
