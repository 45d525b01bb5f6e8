#include "compare/output_difference.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::compare {
namespace {

using Kind = Token::Kind;

/// The tolerance for results of a number type: at least ten times the rounding error of one
/// operation, because a result is usually the sum of many rounded operations.
struct NamedTolerance {
  std::string_view name;
  Tolerance tolerance;
};
constexpr std::array<NamedTolerance, 5> kTypes{{{"float64", {1e-12, 1e-12}},
                                                {"float32", {1e-6, 1e-6}},
                                                {"tf32", {5e-3, 1e-5}},
                                                {"float16", {5e-3, 1e-5}},
                                                {"bfloat16", {4e-2, 1e-5}}}};

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}
bool is_word_part(char c) {
  return c == '_' || (static_cast<unsigned char>(c) & 0x80U) != 0 ||
         std::isalnum(static_cast<unsigned char>(c)) != 0;
}

/// The number at the start of `text`. If there is none, the text of the returned token is empty.
Token number_at(std::string_view text) {
  Token token;
  std::size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const std::size_t digits = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  std::size_t decimals = 0;
  bool real = false;
  if (at + 1 < text.size() && text[at] == '.' && (is_digit(text[at + 1]) || at > digits)) {
    const std::size_t point = at++;
    while (at < text.size() && is_digit(text[at])) ++at;
    decimals = at - point - 1;
    real = decimals > 0 || point > digits;
  }
  if (at == digits) return token;
  int exponent = 0;
  if (at + 1 < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    std::size_t end = at + 1 + static_cast<std::size_t>(text[at + 1] == '-' || text[at + 1] == '+');
    const std::size_t first = text[at + 1] == '+' ? at + 2 : at + 1;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (std::from_chars(text.data() + first, text.data() + end, exponent).ec == std::errc() &&
        is_digit(text[end - 1])) {
      at = end;
      real = true;
    } else {
      exponent = 0;
    }
  }
  const std::size_t first = text[0] == '+' ? 1 : 0;
  const auto parsed = std::from_chars(text.data() + first, text.data() + at, token.value);
  if (parsed.ec != std::errc())
    return token;  // a double cannot represent this number, so its text is compared
  token.kind = real ? Kind::kReal : Kind::kInteger;
  token.text = text.substr(0, at);
  if (real) token.last_place = std::pow(10.0, exponent - static_cast<int>(decimals));
  return token;
}

void add_tokens(std::string_view line, std::size_t number, Output& out) {
  for (std::size_t at = 0; at < line.size();) {
    if (std::isspace(static_cast<unsigned char>(line[at])) != 0) {
      ++at;
      continue;
    }
    const bool after_word = at > 0 && (is_word_part(line[at - 1]) || line[at - 1] == '.');
    Token token = after_word ? Token{} : number_at(line.substr(at));
    if (token.text.empty()) {
      std::size_t end = at + 1;
      if (is_word_part(line[at]))
        while (end < line.size() && is_word_part(line[end])) ++end;
      token.text = line.substr(at, end - at);
      const auto lower = [&](std::string_view word) {
        return token.text.size() == word.size() &&
               std::equal(word.begin(), word.end(), token.text.begin(), [](char a, char b) {
                 return a == std::tolower(static_cast<unsigned char>(b));
               });
      };
      if (lower("nan") || lower("inf")) {
        token.kind = Kind::kReal;
        token.value = lower("nan") ? std::numeric_limits<double>::quiet_NaN()
                                   : std::numeric_limits<double>::infinity();
      }
    }
    token.line = number;
    at += token.text.size();
    out.push_back(std::move(token));
  }
}

double from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const double fraction = bits & 0x3FF;
  double value = 0;
  if (exponent == 0x1F)
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    value = std::ldexp(fraction, -24);
  else
    value = std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}

template <typename T>
T element(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Reads one little-endian element of an array. `type` is "f4", "i8", "b1" and so on. For an
/// integer, the token's text is exact.
std::optional<Token> array_element(std::string_view type, const char* at) {
  Token token;
  const auto integer = [&](auto value) {
    token.kind = Kind::kInteger;
    token.text = std::to_string(value);
    token.value = static_cast<double>(value);
    return token;
  };
  if (type == "i1") return integer(element<std::int8_t>(at));
  if (type == "i2") return integer(element<std::int16_t>(at));
  if (type == "i4") return integer(element<std::int32_t>(at));
  if (type == "i8") return integer(element<std::int64_t>(at));
  if (type == "u1" || type == "b1") return integer(element<std::uint8_t>(at));
  if (type == "u2") return integer(element<std::uint16_t>(at));
  if (type == "u4") return integer(element<std::uint32_t>(at));
  if (type == "u8") return integer(element<std::uint64_t>(at));
  token.kind = Kind::kReal;
  if (type == "f2")
    token.value = from_half(element<std::uint16_t>(at));
  else if (type == "f4")
    token.value = static_cast<double>(element<float>(at));
  else if (type == "f8")
    token.value = element<double>(at);
  else
    return std::nullopt;
  return token;
}

Error bad_array() {
  return {ErrorCode::kInvalidArgument, "E0543",
          text("the array file of the output is damaged, or has a type that cannot be compared"),
          text("use arrays of integers, booleans, float16, float32 or float64, written by "
               "numpy.save()")};
}

constexpr std::string_view kMagic = "\x93NUMPY";

/// The value of `key` in the header of a .npy file, up to the character `end`.
std::string_view header_value(std::string_view header, std::string_view key, char end) {
  const auto at = header.find(key);
  if (at == std::string_view::npos) return {};
  const auto first = header.find_first_not_of(" :", at + key.size());
  if (first == std::string_view::npos) return {};
  const std::size_t begin = header[first] == '\'' || header[first] == '(' ? first + 1 : first;
  const auto last = header.find(end, begin);
  return last == std::string_view::npos ? std::string_view{} : header.substr(begin, last - begin);
}

Result<Output> parse_array(std::string_view bytes) {
  constexpr std::size_t kBefore = 8;  // the bytes of the magic string and of the version
  if (bytes.size() < kBefore + 4) return bad_array();
  const bool is_long = bytes[6] != 1;
  const std::size_t length = is_long ? element<std::uint32_t>(bytes.data() + kBefore)
                                     : element<std::uint16_t>(bytes.data() + kBefore);
  const std::size_t begin = kBefore + (is_long ? 4 : 2);
  if (length > bytes.size() - begin) return bad_array();
  const std::string_view header = bytes.substr(begin, length);
  const std::string_view data = bytes.substr(begin + length);
  std::string_view type = header_value(header, "'descr'", '\'');
  if (type.size() != 3 || (type[0] != '<' && type[0] != '|') || !is_digit(type[2]))
    return bad_array();
  type.remove_prefix(1);
  const auto size = static_cast<std::size_t>(type[1] - '0');
  if (size == 0 || data.size() % size != 0) return bad_array();
  Output out;
  Token shape;
  shape.text = "(" + std::string(header_value(header, "'shape'", ')')) + ")";
  out.push_back(std::move(shape));
  for (std::size_t at = 0; at < data.size(); at += size) {
    auto token = array_element(type, data.data() + at);
    if (!token) return bad_array();
    token->line = at / size;
    out.push_back(*std::move(token));
  }
  return out;
}

/// The relative difference of two real numbers; 0 if the difference is within the tolerance.
double relative_gap(const Token& one, const Token& other, Tolerance tolerance) {
  if (std::isnan(one.value) && std::isnan(other.value)) return 0;
  if (one.value == other.value) return 0;
  const double gap = std::abs(one.value - other.value);
  const double size = std::max(std::abs(one.value), std::abs(other.value));
  if (!std::isfinite(gap)) return std::numeric_limits<double>::infinity();
  // A printed number was rounded at its last decimal place, so a difference of one in this place is
  // allowed.
  const double place = std::max(one.last_place, other.last_place);
  // because decimal fractions are rounded when they are converted to binary
  constexpr double kSlack = 1 + 1e-9;
  if (gap <= tolerance.absolute + tolerance.relative * size) return 0;
  if (gap <= place * kSlack) return 0;
  return gap / size;
}

/// Like relative_gap(), but returns nullopt if the tokens cannot be compared as numbers.
std::optional<double> gap_of(const Token& one, const Token& other, Tolerance tolerance) {
  if (one.kind == Kind::kWord || other.kind == Kind::kWord) {
    if (one.kind == other.kind && one.text == other.text) return 0;
    return std::nullopt;
  }
  if (one.kind == Kind::kInteger && other.kind == Kind::kInteger)
    return one.text == other.text ? 0 : relative_gap(one, other, {0, 0});
  return relative_gap(one, other, tolerance);
}

std::string shown(const Token& token) {
  return token.text.empty() ? fmt::format("{:.9g}", token.value) : printable(token.text);
}

}  // namespace

std::optional<Tolerance> parse_tolerance(std::string_view given) {
  for (const NamedTolerance& one : kTypes)
    if (one.name == given) return one.tolerance;
  const Token number = number_at(given);
  if (number.text.size() != given.size() || given.empty() || number.value < 0 || number.value >= 1)
    return std::nullopt;
  return Tolerance{number.value, std::min(number.value, Tolerance{}.absolute)};
}

Result<Output> parse_output(std::string_view bytes, const std::vector<std::string>& lines) {
  if (bytes.starts_with(kMagic)) return parse_array(bytes);
  Output out;
  std::size_t number = 0;
  for (const std::string_view line : split(bytes, '\n')) {
    ++number;
    const bool wanted = std::any_of(lines.begin(), lines.end(), [&](const std::string& part) {
      return line.find(part) != std::string_view::npos;
    });
    if (wanted || lines.empty()) add_tokens(line, number, out);
  }
  return out;
}

std::optional<model::OutputDifference> difference_of(const Output& expected, const Output& found,
                                                     Tolerance tolerance,
                                                     const std::vector<bool>& ignored) {
  model::OutputDifference difference;
  const auto note = [&](const Token& one, const Token& other) {
    if (difference.line != 0 || !difference.expected.empty()) return;
    difference.line = one.line;
    difference.expected = shown(one);
    difference.found = shown(other);
  };
  const std::size_t common = std::min(expected.size(), found.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (i < ignored.size() && ignored[i]) continue;
    const auto gap = gap_of(expected[i], found[i], tolerance);
    if (gap && *gap == 0) continue;
    note(expected[i], found[i]);
    if (!gap) {
      difference.in_shape = true;
      return difference;
    }
    ++difference.numbers;
    difference.largest_relative = std::max(difference.largest_relative, *gap);
  }
  if (expected.size() != found.size()) {
    difference.in_shape = true;
    if (difference.numbers == 0) {
      const Token& more = expected.size() > common ? expected[common] : found[common];
      difference.line = more.line;
      difference.expected = expected.size() > common ? shown(more) : "";
      difference.found = found.size() > common ? shown(more) : "";
    }
    return difference;
  }
  if (difference.numbers == 0) return std::nullopt;
  return difference;
}

void OutputSeries::add(Output output, Tolerance tolerance) {
  if (++runs_ == 1) {
    first_ = std::move(output);
    varying_.assign(first_.size(), false);
    return;
  }
  stable_ = stable_ && output.size() == first_.size();
  for (std::size_t i = 0; stable_ && i < first_.size(); ++i) {
    const auto gap = gap_of(first_[i], output[i], tolerance);
    stable_ = gap.has_value();
    if (gap && *gap > 0) varying_[i] = true;
  }
}

model::OutputCheck check_output(const OutputSeries& reference, const OutputSeries& series,
                                Tolerance tolerance) {
  model::OutputCheck check;
  if (!reference.is_stable() || !series.is_stable() || reference.empty() || series.empty()) {
    check.state = model::OutputCheck::State::kUnstable;
    return check;
  }
  std::vector<bool> ignored = reference.varying();
  for (std::size_t i = 0; i < std::min(ignored.size(), series.varying().size()); ++i)
    if (series.varying()[i]) ignored[i] = true;
  for (std::size_t i = 0; i < ignored.size(); ++i) {
    if (reference.first()[i].kind == Kind::kWord) continue;
    ++(ignored[i] ? check.varying : check.compared);
  }
  check.repeats = check.varying == 0 && reference.runs() > 1 && series.runs() > 1;
  check.difference = difference_of(reference.first(), series.first(), tolerance, ignored);
  if (check.difference) check.state = model::OutputCheck::State::kDiffers;
  return check;
}

}  // namespace berth::compare
