// FNV-1a: a fast 64-bit checksum that changes if one byte changes. It does not detect deliberate
// changes.
#pragma once

#include <cstdint>
#include <string_view>

namespace berth {

class Fnv1a {
 public:
  constexpr void add(std::uint8_t byte) { sum_ = (sum_ ^ byte) * 0x100000001b3ULL; }
  constexpr void add(std::string_view bytes) {
    for (const char one : bytes) add(static_cast<std::uint8_t>(one));
  }
  [[nodiscard]] constexpr std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 0xcbf29ce484222325ULL;
};

[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view bytes) {
  Fnv1a sum;
  sum.add(bytes);
  return sum.sum();
}

}  // namespace berth
