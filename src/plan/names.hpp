// Compares names of models and GPUs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::plan {

/// The name without case and separators: "a100sxm4" for "NVIDIA A100-SXM4".
[[nodiscard]] std::string plain(std::string_view name);
/// Up to three similar names: names that contain the word, and names with the smallest edit
/// distance.
[[nodiscard]] std::string near_names(std::string_view word, const std::vector<std::string>& names);

}  // namespace berth::plan
