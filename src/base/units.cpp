#include "base/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/text.hpp"

namespace berth {
namespace {

/// Reads an unsigned decimal number without an exponent; rejects hexadecimal digits, "inf" and
/// "nan". Sets `rest` to the text after the number.
bool read_decimal(std::string_view text, double& number, std::string_view& rest) {
  const std::size_t length = std::min(text.find_first_not_of("0123456789."), text.size());
  if (length == 0 || text[0] == '.') return false;
  const auto [end, problem] =
      std::from_chars(text.data(), text.data() + length, number, std::chars_format::fixed);
  if (problem != std::errc() || end != text.data() + length) return false;
  rest = text.substr(length);
  if (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
  return true;
}

struct Unit {
  std::string_view name;
  double factor;
};

template <std::size_t N>
double factor_of(const std::array<Unit, N>& units, std::string_view name) {
  for (const Unit& unit : units)
    if (unit.name == name) return unit.factor;
  return 0;
}

constexpr double kKi = 1024.0;
constexpr std::array<Unit, 14> kSizes{{{"B", 1},
                                       {"bytes", 1},
                                       {"K", kKi},
                                       {"M", kKi* kKi},
                                       {"G", kKi* kKi* kKi},
                                       {"T", kKi* kKi* kKi* kKi},
                                       {"KiB", kKi},
                                       {"MiB", kKi* kKi},
                                       {"GiB", kKi* kKi* kKi},
                                       {"TiB", kKi* kKi* kKi* kKi},
                                       {"KB", 1e3},
                                       {"MB", 1e6},
                                       {"GB", 1e9},
                                       {"TB", 1e12}}};
constexpr std::array<Unit, 6> kDurations{
    {{"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}, {"w", 604800e3}}};

Error bad_size(std::string_view given, std::string_view why) {
  return {ErrorCode::kInvalidArgument, "E0101", text("'{}' is not a size: {}", given, why),
          text("write a number with its unit, such as 8GiB, 500MiB or 24GB")};
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view given) {
  double number = 0;
  std::string_view unit;
  if (!read_decimal(given, number, unit))
    return bad_size(given, text("it does not begin with a number"));
  if (unit.empty()) return bad_size(given, text("the unit is missing"));
  const double factor = factor_of(kSizes, unit);
  if (factor == 0) return bad_size(given, text("there is no unit '{}'", unit));
  const double bytes = number * factor;
  if (!(bytes < 9.0e18)) return bad_size(given, text("it is too large"));
  return static_cast<std::uint64_t>(std::llround(bytes));
}

Result<double> parse_share(std::string_view given) {
  double number = 0;
  std::string_view unit;
  const bool read = read_decimal(given, number, unit) && (unit.empty() || unit == "%");
  const double share = unit == "%" ? number / 100 : number;
  if (!read || !(share > 0 && share <= 1))
    return Error{ErrorCode::kInvalidArgument, "E0102",
                 text("'{}' is not a share of a device", given),
                 text("write a part of the whole, such as 30% or 0.3")};
  return share;
}

std::string show_share(int permille) {
  const int size = std::abs(permille);
  const char* sign = permille < 0 ? "-" : "";
  return size % 10 == 0 ? fmt::format("{}{} %", sign, size / 10)
                        : fmt::format("{}{}.{} %", sign, size / 10, size % 10);
}

Result<std::chrono::milliseconds> parse_duration(std::string_view given) {
  // Several units may follow each other, as in "1h30m". Each unit must be smaller than the unit
  // before, because "30m1h" is probably a typo.
  double sum = 0, before = std::numeric_limits<double>::infinity();
  bool is_sound = !given.empty();
  for (std::string_view rest = given; is_sound && !rest.empty();) {
    double number = 0;
    is_sound = read_decimal(rest, number, rest);
    const auto length = std::min(rest.find_first_of("0123456789."), rest.size());
    std::string_view unit = rest.substr(0, length);
    if (length < rest.size() && unit.ends_with(' '))
      unit.remove_suffix(1);  // A space between the parts is allowed: "1 h 30 m".
    const double factor = is_sound ? factor_of(kDurations, unit) : 0;
    is_sound = factor > 0 && factor < before;
    before = factor;
    sum += number * factor;
    rest.remove_prefix(length);
  }
  if (!is_sound || !(sum < 9.0e15))
    return Error{ErrorCode::kInvalidArgument, "E0103", text("'{}' is not a duration", given),
                 text("write a number with its unit, such as 500ms, 10s, 5m or 1h30m")};
  return std::chrono::milliseconds(std::llround(sum));
}

Result<std::int64_t> parse_integer(std::string_view given, std::int64_t least, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(given.data(), given.data() + given.size(), number);
  if (problem != std::errc() || end != given.data() + given.size() || given.empty() ||
      number < least || number > most)
    return Error{ErrorCode::kInvalidArgument, "E0104",
                 text("'{}' is not a whole number from {} to {}", given, least, most),
                 text("write digits only, such as {}", std::max<std::int64_t>(least, 1))};
  return number;
}

std::string show_bytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 6> kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kNames.size()) {
    value /= kKi;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return value < 9.995   ? fmt::format("{:.2f} {}", value, kNames[unit])
         : value < 99.95 ? fmt::format("{:.1f} {}", value, kNames[unit])
                         : fmt::format("{:.0f} {}", value, kNames[unit]);
}

std::string show_duration(std::chrono::milliseconds duration) {
  const auto ms = duration.count();
  if (ms < 0) return "-";
  if (ms < 1000) return fmt::format("{} ms", ms);
  if (ms < 60'000) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
  const auto seconds = ms / 1000;
  if (seconds < 3600) return fmt::format("{} m {} s", seconds / 60, seconds % 60);
  if (seconds < 86'400) return fmt::format("{} h {} m", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{} d {} h", seconds / 86'400, seconds / 3600 % 24);
}

std::string show_power(std::uint64_t milliwatts) {
  const double watts = static_cast<double>(milliwatts) / 1000;
  return watts < 9.95 ? fmt::format("{:.1f} W", watts) : fmt::format("{:.0f} W", watts);
}

}  // namespace berth
