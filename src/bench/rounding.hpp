// Conversions between float and the 16-bit types of GPUs. Pure.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace berth::bench {

/// Converts a float to bf16 or fp16, and rounds to nearest, ties to even. Values below the normal
/// range of fp16 become 0, values above it infinity.
[[nodiscard]] inline std::uint16_t narrowed(float value, bool bf16) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const unsigned dropped = bf16 ? 16 : 13;
  const std::uint32_t rounded = bits + (1U << (dropped - 1)) - 1 + (bits >> dropped & 1U);
  if (bf16) return static_cast<std::uint16_t>(rounded >> 16);
  const std::uint32_t sign = bits >> 16 & 0x8000U, magnitude = rounded & 0x7FFFFFFFU;
  constexpr std::uint32_t kRebias = (127U - 15U) << 23;
  if (magnitude < kRebias + (1U << 23)) return static_cast<std::uint16_t>(sign);  // below 2^-14
  if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
  return static_cast<std::uint16_t>(sign | (magnitude - kRebias) >> 13);
}

[[nodiscard]] inline float widened(std::uint16_t value, bool bf16) {
  if (bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
  const std::uint32_t sign = (value & 0x8000U) << 16, magnitude = value & 0x7FFFU;
  if (magnitude >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | magnitude << 13);
  if (magnitude < 0x400U)
    return std::copysign(static_cast<float>(magnitude) * 0x1p-24F,
                         std::bit_cast<float>(sign | 0x3F800000U));
  return std::bit_cast<float>(sign | ((magnitude << 13) + ((127U - 15U) << 23)));
}

}  // namespace berth::bench
