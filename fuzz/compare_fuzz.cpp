// The output of a program that `berth compare` compares: text, or an array file.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "compare/output_difference.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth::compare;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto whole = parse_output(bytes, {});
  if (!whole) return 0;
  BERTH_CHECK(!difference_of(*whole, *whole, {0, 0}));
  const auto part = parse_output(bytes.substr(0, bytes.size() * data[0] / 256), {});
  if (!part) return 0;
  // The result must be the same if the two outputs are swapped.
  const auto one = difference_of(*whole, *part, {}), other = difference_of(*part, *whole, {});
  BERTH_CHECK(one.has_value() == other.has_value());
  BERTH_CHECK(!one || one->numbers == other->numbers);
  OutputSeries series;
  series.add(*whole, {});
  series.add(*part, {});
  const auto check = check_output(series, series, {});
  BERTH_CHECK(check.state != berth::model::OutputCheck::State::kDiffers);
  return 0;
}
