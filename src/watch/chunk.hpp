// A chunk of history: the readings of one device at 60 times with a fixed interval, compressed.
// Pure. The input of decode() may be from a damaged file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/device.hpp"

namespace berth::watch {

/// The kinds of readings that the history stores.
enum class Series : unsigned char {
  kUtilization,        // percent
  kMemoryUtilization,  // percent
  kMemoryUsed,         // bytes, rounded to MiB
  kTemperature,        // degrees Celsius
  kPower,              // milliwatts, rounded to 0.1 W
  kClockSm,            // MHz
};
inline constexpr std::size_t kSeriesCount = 6;
/// Returns the name of the reading: "utilization_percent".
[[nodiscard]] std::string_view name(Series series);

using Moment = std::array<std::optional<double>, kSeriesCount>;
[[nodiscard]] Moment moment_of(const model::DeviceReadings& readings);

inline constexpr std::size_t kChunkMoments = 60;
using Chunk = std::array<Moment, kChunkMoments>;

[[nodiscard]] std::string encode(const Chunk& chunk);
/// Decodes a chunk; nullopt if the bytes are invalid.
[[nodiscard]] std::optional<Chunk> decode(std::string_view bytes);

/// Computes the mean of several moments. Each series has its own mean, over the moments in which it
/// has a value.
class Mean {
 public:
  void add(const Moment& moment);
  [[nodiscard]] Moment take();
  [[nodiscard]] bool empty() const { return moments_ == 0; }

 private:
  std::array<double, kSeriesCount> sums_{};
  std::array<int, kSeriesCount> counts_{};
  int moments_ = 0;
};

}  // namespace berth::watch
