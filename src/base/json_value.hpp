// A value out of hostile JSON: nlohmann converts a number like 1e300 to an integer by a cast that
// C++ does not define, so an integer is read only from what was written as one.
#pragma once

#include <type_traits>
#include <vector>

namespace berth {

/// Throws Json::exception where the value is of another type.
template <typename T, typename Json>
[[nodiscard]] T json_value(const Json& json) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    static_cast<void>(json.template get_ref<const typename Json::number_integer_t&>());
  return json.template get<T>();
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

}  // namespace berth
