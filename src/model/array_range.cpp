#include "model/array_range.hpp"

#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::model {
namespace {

constexpr int kLargest = 1'000'000;

Error wrong(std::string_view given, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "E0105",
          text("'{}' is not an array range: {}", printable(std::string(given)), why),
          "berth run --queue --array 1-100%4 -- python train.py"};
}

/// Takes a number from the front of the text. Returns -1 if there is none.
int take_number(std::string_view& rest) {
  int number = 0;
  const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (problem != std::errc() || number < 0 || number > kLargest) return -1;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return number;
}

bool take(std::string_view& rest, char sign) {
  if (rest.empty() || rest.front() != sign) return false;
  rest.remove_prefix(1);
  return true;
}

}  // namespace

Result<ArrayRange> parse_array_range(std::string_view given) {
  ArrayRange range;
  std::string_view rest = trim(given);
  const auto sign = rest.find('%');
  if (sign != std::string_view::npos) {
    std::string_view most = rest.substr(sign + 1);
    range.at_most = take_number(most);
    if (range.at_most < 1 || !most.empty())
      return wrong(given, text("after %, write the number of jobs that may run at a time"));
    rest = rest.substr(0, sign);
  }
  for (std::string_view part : split(rest, ',')) {
    const int first = take_number(part);
    int last = first, step = 1;
    if (first >= 0 && take(part, '-')) {
      last = take_number(part);
      if (take(part, ':')) step = take_number(part);
    }
    if (first < 0 || last < first || step < 1 || !part.empty())
      return wrong(given, text("for example 1-100, 1,3,5 or 0-100:10"));
    if ((last - first) / step >= kMostArrayJobs - static_cast<int>(range.indices.size()))
      return wrong(given, text("it has more than {} jobs", kMostArrayJobs));
    for (int index = first; index <= last; index += step) range.indices.push_back(index);
  }
  std::sort(range.indices.begin(), range.indices.end());
  range.indices.erase(std::unique(range.indices.begin(), range.indices.end()), range.indices.end());
  return range;
}

}  // namespace berth::model
