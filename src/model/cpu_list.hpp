// CPU sets in the kernel's list format ("0-3,8"). The size is limited, because the text is
// untrusted.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::model {

/// Parses a list. Returns ascending CPU numbers without duplicates. nullopt if the text is not a
/// list, or contains a CPU above 8191.
[[nodiscard]] std::optional<std::vector<int>> parse_cpu_list(std::string_view text);
[[nodiscard]] std::string show_cpu_list(const std::vector<int>& cpus);
[[nodiscard]] std::vector<int> intersection(const std::vector<int>& a, const std::vector<int>& b);

}  // namespace berth::model
