// Matrices for a matrix product, and a check that computes samples of the product in fp64. Pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace berth::bench {

/// A matrix with pseudorandom numbers that are the same in every run. They are in [-1, 1) and use
/// all bits of the mantissa.
template <typename T>
[[nodiscard]] std::vector<T> matrix(std::uint64_t rows, std::uint64_t seed) {
  std::vector<T> values(rows * rows);
  std::uint64_t state = seed * 2654435761U + 88172645463325252U;
  for (T& value : values) {
    // xorshift64, Marsaglia 2003.
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    value = static_cast<T>(static_cast<double>(state >> 11) * 0x1p-52 - 1.0);
  }
  return values;
}

/// Checks 256 elements of C = A·B and returns the largest error, relative to the sum of |a·b| of
/// the element. NaN and infinity count as the largest double, because JSON has no infinity.
/// Matrices are in row order.
template <typename T>
[[nodiscard]] double sampled_error(std::uint64_t rows, const std::vector<T>& a,
                                   const std::vector<T>& b, const std::vector<T>& c) {
  constexpr std::uint64_t kSamples = 256;
  double worst = 0;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    // The samples are spread over all rows and columns, and include the corners.
    const std::uint64_t row = sample * (rows - 1) / (kSamples - 1);
    const std::uint64_t column = sample * 7919 % rows;
    double sum = 0;
    double magnitude = 0;
    for (std::uint64_t k = 0; k < rows; ++k) {
      const double term =
          static_cast<double>(a[row * rows + k]) * static_cast<double>(b[k * rows + column]);
      sum += term, magnitude += std::abs(term);
    }
    const double error = std::abs(static_cast<double>(c[row * rows + column]) - sum) / magnitude;
    if (!std::isfinite(error)) return std::numeric_limits<double>::max();
    worst = std::max(worst, error);
  }
  return worst;
}

/// The largest error that a correct product can have, whatever the order of summation. A wrong
/// element has a larger error.
template <typename T>
[[nodiscard]] double allowed_error(std::uint64_t rows) {
  return std::numeric_limits<T>::epsilon() * std::sqrt(static_cast<double>(rows)) * 4;
}

}  // namespace berth::bench
