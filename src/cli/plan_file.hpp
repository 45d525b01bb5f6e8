// MODEL of `berth plan` as a file or folder.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "plan/checkpoint.hpp"

namespace berth::cli {

/// Opens a model file. Fails with kNotFound, kPermissionDenied (E0110), kUnavailable (E0111),
/// kInvalidArgument (E1040: not a regular file; E1042: a part of a sharded model is missing).
[[nodiscard]] Result<FileBytes> open_model_file(const std::string& path);
/// The path of the model file: `word` itself if it is a file, or the model in it if it is a folder.
/// nullopt if there is no such file or folder and the word does not look like a path.
[[nodiscard]] std::optional<std::string> model_path(const std::string& word);

}  // namespace berth::cli
