// The graphs' data: the last minutes of each device. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "watch/frame.hpp"

namespace berth::top {

/// The number of values that a graph can show; kGraphs gives their names and order.
inline constexpr std::size_t kGraphReadings = 4;

/// One point of a graph, in percent: of the total memory, of the power limit, or of 100 degrees
/// Celsius. A value has only one byte, because hours of values of many devices are kept.
struct Point {
  std::array<std::int8_t, kGraphReadings> percent;  // -1: the value is unknown
  [[nodiscard]] std::optional<double> value(std::size_t reading) const {
    return percent.at(reading) < 0 ? std::nullopt : std::optional<double>(percent.at(reading));
  }
};

class Series {
 public:
  static constexpr std::size_t kMost =
      1200;  // number of points per device, enough for 400 columns of braille

  void add(const watch::Frame& frame);
  /// Returns the points of a device, oldest first; empty if the device was never seen.
  [[nodiscard]] const std::deque<Point>& of(const model::Device& device) const;

 private:
  std::map<std::string, std::deque<Point>> points_;  // the key is watch::key_of() of the device
};

/// Returns the used memory in percent of the total memory.
[[nodiscard]] std::optional<double> memory_percent(const model::Device& device);

}  // namespace berth::top
