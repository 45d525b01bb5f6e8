#include "doctor/version.hpp"

#include <algorithm>

namespace berth::doctor {
namespace {

constexpr int kMost = 999'999'999;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

Version version_of(std::string_view text) {
  Version parts;
  std::size_t at = 0;
  while (at < text.size() && is_digit(text[at]) && parts.size() < 8) {
    int number = 0;
    for (; at < text.size() && is_digit(text[at]); ++at)
      number = number > kMost / 10 - 1 ? kMost : number * 10 + (text[at] - '0');
    parts.push_back(number);
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
  // cu65, cu80, cu92: before CUDA 10.
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
