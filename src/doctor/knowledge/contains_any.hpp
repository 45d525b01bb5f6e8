// Whether a text contains one of several words.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace berth::doctor {

[[nodiscard]] inline bool contains_any(std::string_view text,
                                       std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

}  // namespace berth::doctor
