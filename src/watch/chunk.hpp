// A chunk of history: readings of one device at 60 times with a fixed interval, compressed. Pure.
// decode() must expect input from damaged files.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/device.hpp"

namespace berth::watch {

/// The readings that history keeps.
enum class Series : unsigned char {
  kUtilization,        // percent
  kMemoryUtilization,  // percent
  kMemoryUsed,         // bytes, in steps of a MiB
  kTemperature,        // degrees Celsius
  kPower,              // milliwatts, in steps of 0.1 W
  kClockSm,            // MHz
};
inline constexpr std::size_t kSeriesCount = 6;
/// The key of the reading: "utilization_percent".
[[nodiscard]] std::string_view name(Series series);

using Moment = std::array<std::optional<double>, kSeriesCount>;
[[nodiscard]] Moment moment_of(const model::DeviceReadings& readings);

inline constexpr std::size_t kChunkMoments = 60;
using Chunk = std::array<Moment, kChunkMoments>;

[[nodiscard]] std::string encode(const Chunk& chunk);
/// nullopt if the bytes are not a chunk.
[[nodiscard]] std::optional<Chunk> decode(std::string_view bytes);

/// The mean of several moments. For each series, only moments with a value count.
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
