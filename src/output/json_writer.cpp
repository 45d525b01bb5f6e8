#include "output/json_writer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text_parts.hpp"

namespace berth::output {

void JsonWriter::key(std::string_view name) {
  separate();
  out_ += '"';
  out_ += name;
  out_ += "\":";
  first_ = true;
}

void JsonWriter::value(std::string_view text) {
  separate();
  out_ += '"';
  for (;;) {
    const std::size_t end = text.find_first_of("\n\t");
    escape(text.substr(0, end));
    if (end == std::string_view::npos) break;
    out_ += text[end] == '\n' ? "\\n" : "\\t";
    text.remove_prefix(end + 1);
  }
  out_ += '"';
}

void JsonWriter::escape(std::string_view text) {
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
  const std::string made = plain ? std::string() : printable(text);
  for (const char c : plain ? text : std::string_view(made)) {
    if (c == '"' || c == '\\') out_ += '\\';
    out_ += c;
  }
}

void JsonWriter::value(double number) {
  if (!std::isfinite(number)) return value(nullptr);
  std::array<char, 32> digits{};
  const auto [end, problem] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  if (problem != std::errc()) return value(nullptr);
  word(std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
}

}  // namespace berth::output
