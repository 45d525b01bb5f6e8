#include "serve/target.hpp"

#include <charconv>
#include <utility>

#include "base/file.hpp"

namespace berth::serve {
namespace {

constexpr std::size_t kMostKeys = 32;

/// "%2F" → "/"; false if the encoding is invalid.
bool decode(std::string_view text, std::string& into) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\0') return false;
    if (text[i] != '%') {
      into += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    unsigned value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || read.ptr != digits.data() + 2 || value == 0) return false;
    into += static_cast<char>(value);
    i += 2;
  }
  return true;
}

void take_query(std::string_view text, std::map<std::string, std::string>& into) {
  for (const std::string_view pair : split(text, '&')) {
    const auto equals = pair.find('=');
    std::string key;
    std::string value;
    if (!decode(pair.substr(0, equals), key) || key.empty() || into.size() >= kMostKeys) continue;
    if (equals != std::string_view::npos && !decode(pair.substr(equals + 1), value)) continue;
    into.insert_or_assign(std::move(key), std::move(value));
  }
}

}  // namespace

bool take_target(std::string_view target, Call& call) {
  const auto question = target.find('?');
  if (!decode(target.substr(0, question), call.path)) return false;
  if (question != std::string_view::npos) take_query(target.substr(question + 1), call.query);
  return true;
}

}  // namespace berth::serve
