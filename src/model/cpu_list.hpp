// Sets of processors in the kernel's list format ("0-3,8"): parsed from untrusted files, so
// bounded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::model {

/// Ascending, without repetition; nullopt where the text is not a list or names a processor above
/// 8191.
[[nodiscard]] std::optional<std::vector<int>> parse_cpu_list(std::string_view text);
[[nodiscard]] std::string show_cpu_list(const std::vector<int>& cpus);
[[nodiscard]] std::vector<int> intersection(const std::vector<int>& a, const std::vector<int>& b);

}  // namespace berth::model
