#include "doctor/knowledge/version.hpp"

#include <algorithm>

namespace berth::doctor {
namespace {

constexpr int kMost = 999'999'999;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// The kinds of suffix that can follow the release number, in sort order.
enum class Stage { kDevelopment, kAlpha, kBeta, kCandidate, kFinal, kPost };

struct Suffix {
  Stage stage = Stage::kFinal;
  int number = 0;
  // the suffix also contains "dev": "rc1.dev3", which comes before "rc1"
  bool of_development = false;
};

int number_at(std::string_view text, std::size_t& at) {
  int number = 0;
  for (; at < text.size() && is_digit(text[at]); ++at)
    number = number > kMost / 10 - 1 ? kMost : number * 10 + (text[at] - '0');
  return number;
}

bool is_separator(char c) {
  return c == '.' || c == '-' || c == '_' || c == '~';
}

Suffix suffix_of(std::string_view rest) {
  struct Word {
    std::string_view word;
    Stage stage;
  };
  static constexpr Word kWords[] = {
      {"dev", Stage::kDevelopment}, {"alpha", Stage::kAlpha},  {"a", Stage::kAlpha},
      {"beta", Stage::kBeta},       {"b", Stage::kBeta},       {"preview", Stage::kCandidate},
      {"pre", Stage::kCandidate},   {"rc", Stage::kCandidate}, {"c", Stage::kCandidate},
      {"post", Stage::kPost},       {"rev", Stage::kPost},     {"r", Stage::kPost}};
  rest = rest.substr(0, rest.find('+'));
  std::size_t at = 0;
  while (at < rest.size() && is_separator(rest[at])) ++at;
  Suffix suffix;
  if (at == rest.size()) return suffix;
  // a Debian revision, as in "1.14.3-1"
  if (is_digit(rest[at])) return {Stage::kPost, number_at(rest, at), false};
  for (const Word& one : kWords) {
    if (!rest.substr(at).starts_with(one.word)) continue;
    at += one.word.size();
    while (at < rest.size() && is_separator(rest[at])) ++at;
    suffix = {one.stage, number_at(rest, at), false};
    break;
  }
  const bool is_before =
      suffix.stage != Stage::kDevelopment && rest.substr(at).find("dev") != std::string_view::npos;
  suffix.of_development = is_before;
  return suffix;
}

/// The length of the release number: 6 for "2.10.0rc1".
std::size_t release_length(std::string_view text) {
  std::size_t at = 0;
  for (;;) {
    while (at < text.size() && is_digit(text[at])) ++at;
    const bool goes_on =
        at + 1 < text.size() && (text[at] == '.' || text[at] == 'u') && is_digit(text[at + 1]);
    if (!goes_on) return at;
    ++at;
  }
}

}  // namespace

Version version_of(std::string_view text) {
  Version parts;
  std::size_t at = 0;
  while (at < text.size() && is_digit(text[at]) && parts.size() < 8) {
    parts.push_back(number_at(text, at));
    if (at + 1 >= text.size() || (text[at] != '.' && text[at] != 'u')) break;
    ++at;
  }
  return parts;
}

int compare(const Version& one, const Version& other) {
  for (std::size_t i = 0; i < std::max(one.size(), other.size()); ++i) {
    const int left = i < one.size() ? one[i] : 0;
    const int right = i < other.size() ? other[i] : 0;
    if (left != right) return left < right ? -1 : 1;
  }
  return 0;
}

int compare_versions(std::string_view one, std::string_view other) {
  if (const int order = compare(version_of(one), version_of(other)); order != 0) return order;
  const Suffix left = suffix_of(one.substr(release_length(one)));
  const Suffix right = suffix_of(other.substr(release_length(other)));
  if (left.stage != right.stage) return left.stage < right.stage ? -1 : 1;
  if (left.number != right.number) return left.number < right.number ? -1 : 1;
  return static_cast<int>(right.of_development) - static_cast<int>(left.of_development);
}

bool may_be_same(std::string_view one, std::string_view other) {
  Version left = version_of(one), right = version_of(other);
  const std::size_t parts = std::min(left.size(), right.size());
  left.resize(parts);
  right.resize(parts);
  return left == right;
}

std::string beginning(std::string_view text, std::size_t parts) {
  std::string out;
  const Version version = version_of(text);
  for (std::size_t i = 0; i < std::min(parts, version.size()); ++i)
    out += (i == 0 ? "" : ".") + std::to_string(version[i]);
  return out;
}

bool in_range(std::string_view text, std::string_view range) {
  range = range.substr(0, range.find(' '));
  const std::size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  const auto cut = [&](std::string_view like) {
    Version version = version_of(text);
    version.resize(std::min(version.size(), version_of(like).size()));
    return version;
  };
  return !version_of(text).empty() && !version_of(low).empty() &&
         compare(cut(low), version_of(low)) >= 0 && compare(cut(high), version_of(high)) <= 0;
}

std::string_view local_part(std::string_view text) {
  const std::size_t plus = text.find('+');
  return plus == std::string_view::npos ? "" : text.substr(plus + 1);
}

std::string cuda_of_tag(std::string_view tag) {
  if (!tag.starts_with("cu")) return "";
  std::size_t end = 2;
  while (end < tag.size() && is_digit(tag[end])) ++end;
  const std::string_view digits = tag.substr(2, end - 2);
  // The tags "cu65", "cu80" and "cu92" have two digits: they are of CUDA releases before 10.
  if (digits.size() == 2 && digits[0] >= '6')
    return std::string(1, digits[0]) + "." + std::string(1, digits[1]);
  if (digits.size() < 2 || digits.size() > 4) return "";
  if (digits.size() == 2) return std::string(digits) + ".0";
  return std::string(digits.substr(0, 2)) + "." + std::string(digits.substr(2));
}

std::string tag_of_cuda(std::string_view cuda) {
  std::string tag = "cu";
  for (const char c : beginning(cuda))
    if (c != '.') tag += c;
  return tag;
}

}  // namespace berth::doctor
