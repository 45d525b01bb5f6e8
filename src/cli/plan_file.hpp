// The MODEL argument of `berth plan`, if it is a file or a folder.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "plan/checkpoint.hpp"

namespace berth::cli {

/// Opens a model file. Fails with kNotFound (E0110), kPermissionDenied (E0110), kUnavailable
/// (E0111), or kInvalidArgument (E1040: not a regular file; E1042: a part of a sharded model is
/// missing).
[[nodiscard]] Result<FileBytes> open_model_file(const std::string& path);
/// The path of a model file: `word` itself, or the model file in the folder `word`. nullopt if
/// neither exists and `word` does not look like a path.
[[nodiscard]] std::optional<std::string> model_path(const std::string& word);

}  // namespace berth::cli
