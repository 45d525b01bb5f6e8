// Versions as the parts of a release compare: numbers between dots. What follows them (".dev2025",
// "a0", "+cu124") is left out, and "12.8u1" is 12.8.1.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::doctor {

using Version = std::vector<int>;

/// Empty: it does not begin with a number.
[[nodiscard]] Version version_of(std::string_view text);
/// Below zero, zero, above; missing parts count as 0.
[[nodiscard]] int compare(const Version& one, const Version& other);
[[nodiscard]] inline bool is_older(std::string_view one, std::string_view other) {
  return compare(version_of(one), version_of(other)) < 0;
}
/// The first `parts` of it: "2.4" of "2.4.1+cu121".
[[nodiscard]] std::string beginning(std::string_view text, std::size_t parts = 2);
/// `text` is within "2.12-2.14" or "3.10-3.14 (3.15 exp)", both ends counted by their own parts, or
/// begins with a single "2.4".
[[nodiscard]] bool in_range(std::string_view text, std::string_view range);
/// What stands behind the plus: "cu124" of "2.4.1+cu124"; "" none.
[[nodiscard]] std::string_view local_part(std::string_view text);
/// "12.4" of "cu124"; "" where it is no such tag.
[[nodiscard]] std::string cuda_of_tag(std::string_view tag);
/// "cu124" of "12.4".
[[nodiscard]] std::string tag_of_cuda(std::string_view cuda);

}  // namespace berth::doctor
