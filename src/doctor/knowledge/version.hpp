// Versions, and three ways to compare them:
// - is_older(): compares only the release numbers. A nightly build "2.10.0.dev2025" has the
//   features of 2.10, so it is not older than 2.10.
// - compare_versions(): the full order of PEP 440 and Debian, to find the newest:
//   2.10.0.dev1 < 2.10.0a1 < 2.10.0rc1 (and 2.10.0~rc1) < 2.10.0 < 2.10.0.post1.
// - may_be_same(): whether two versions can be of the same build. A shorter version may be an
//   abbreviation of a longer one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::doctor {

using Version = std::vector<int>;

/// The release numbers of a version: {12, 8, 1} for "12.8u1+cu128". Empty if the text does not
/// begin with a number.
[[nodiscard]] Version version_of(std::string_view text);
/// Returns a number below, equal to or above zero, as strcmp() does; missing parts count as 0.
[[nodiscard]] int compare(const Version& one, const Version& other);
[[nodiscard]] inline bool is_older(std::string_view one, std::string_view other) {
  return compare(version_of(one), version_of(other)) < 0;
}
/// Returns a number below, equal to or above zero, as strcmp() does. Ignores local versions
/// ("+cu124").
[[nodiscard]] int compare_versions(std::string_view one, std::string_view other);
/// True if one version begins with all parts of the other ("535.104" and "535.104.05"), or if one
/// of the versions is empty.
[[nodiscard]] bool may_be_same(std::string_view one, std::string_view other);
/// The first `parts` parts of a version: "2.4" of "2.4.1+cu121".
[[nodiscard]] std::string beginning(std::string_view text, std::size_t parts = 2);
/// Whether `text` is in a range such as "2.12-2.14" or "3.10-3.14 (3.15 exp)". A single version
/// such as "2.4" matches all versions that begin with it. If the upper end is "2.14", 2.14.3 is
/// also in the range.
[[nodiscard]] bool in_range(std::string_view text, std::string_view range);
/// The local version, which follows the plus: "cu124" for "2.4.1+cu124"; "" if there is none.
[[nodiscard]] std::string_view local_part(std::string_view text);
/// The CUDA version in a build tag: "12.4" for "cu124"; "" for other tags.
[[nodiscard]] std::string cuda_of_tag(std::string_view tag);
/// The build tag of a CUDA version: "cu124" for "12.4".
[[nodiscard]] std::string tag_of_cuda(std::string_view cuda);

}  // namespace berth::doctor
