// The file in which a program under torchrun describes its error: TORCHELASTIC_ERROR_FILE, written
// by PyTorch's `record` and read by torchrun and torchx. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::run {

struct ErrorFile {
  std::string message;               // "ValueError: no data"
  std::string traceback;             // Python's traceback; "": none
  std::optional<std::int64_t> when;  // seconds since 1970
};

/// Parses the file; nullopt if it is empty or not in PyTorch's form. The message in the file may be
/// an object or a string.
[[nodiscard]] std::optional<ErrorFile> parse_error_file(std::string_view json);
/// The content of the rank's error file, with the exit code of the rank added, as torchrun does. If
/// the rank wrote no file, the content is made from `error`.
[[nodiscard]] std::string error_file_text(std::string_view json, const ErrorFile& error,
                                          int exit_code);

}  // namespace berth::run
