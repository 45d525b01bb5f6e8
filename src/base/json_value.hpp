// Reads values from untrusted JSON. nlohmann converts a number like 1e300 to an integer by a cast
// with undefined behaviour. So json_value reads an integer only if it was written as one.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text_parts.hpp"

namespace berth {

/// Returns the value as type T. Throws Json::exception if it has another type.
template <typename T, typename Json>
[[nodiscard]] T json_value(const Json& json) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    static_cast<void>(json.template get_ref<const typename Json::number_integer_t&>());
    const bool fits = json.is_number_unsigned()
                          ? std::in_range<T>(json.template get<std::uint64_t>())
                          : std::in_range<T>(json.template get<std::int64_t>());
    // The value is a number, so get_ref() as a string always throws Json::exception.
    if (!fits) static_cast<void>(json.template get_ref<const typename Json::string_t&>());
  }
  return json.template get<T>();
}

/// The string at `key`; "" if the value is not an object, or has no string there.
template <typename Json>
[[nodiscard]] std::string json_text(const Json& json, const char* key) {
  if (!json.is_object()) return {};
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->template get<std::string>() : "";
}

/// The value at `key`; null if `json` is not an object, or has no such key.
template <typename Json>
[[nodiscard]] const Json& json_member(const Json& json, const char* key) {
  static const Json nothing;
  if (!json.is_object()) return nothing;
  const auto found = json.find(key);
  return found != json.end() ? *found : nothing;
}

template <typename T, typename Json>
void read_json(const Json& json, T& into) {
  into = json_value<T>(json);
}
template <typename T, typename Json>
void read_json(const Json& json, std::vector<T>& into) {
  into.clear();
  for (const Json& one : json.template get_ref<const typename Json::array_t&>())
    into.push_back(json_value<T>(one));
}

/// Returns the words and variables as JSON. Valid UTF-8 becomes a string; other bytes become
/// {"bytes":[102,255]}, because a JSON string must be UTF-8.
template <typename Json>
[[nodiscard]] Json json_of_words(const std::vector<std::string>& words) {
  Json out = Json::array();
  for (const std::string& word : words) {
    if (is_utf8(word))
      out.push_back(word);
    else
      out.push_back({{"bytes", std::vector<std::uint8_t>(word.begin(), word.end())}});
  }
  return out;
}

/// Reads JSON that json_of_words() wrote. Throws Json::exception for any other form.
template <typename Json>
[[nodiscard]] std::vector<std::string> words_in_json(const Json& json) {
  std::vector<std::string> words;
  for (const Json& one : json.template get_ref<const typename Json::array_t&>()) {
    if (!one.is_object()) {
      words.push_back(json_value<std::string>(one));
      continue;
    }
    std::string& word = words.emplace_back();
    for (const Json& byte : one.at("bytes").template get_ref<const typename Json::array_t&>())
      word += static_cast<char>(json_value<std::int64_t>(byte) & 0xFF);
  }
  return words;
}

}  // namespace berth
