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

/// The readings that a graph can show, in the order of kGraphs.
inline constexpr std::size_t kGraphReadings = 4;

/// Values in percent: of the total memory, of the power limit, of 100 degrees. One byte per value,
/// because hours of readings of many devices are kept.
struct Point {
  std::array<std::int8_t, kGraphReadings> percent;  // -1: unknown
  [[nodiscard]] std::optional<double> value(std::size_t reading) const {
    return percent.at(reading) < 0 ? std::nullopt : std::optional<double>(percent.at(reading));
  }
};

class Series {
 public:
  static constexpr std::size_t kMost =
      1200;  // number of points per device, enough for 400 columns of braille

  void add(const watch::Frame& frame);
  /// The points of a device, oldest first; empty if it was never seen.
  [[nodiscard]] const std::deque<Point>& of(const model::Device& device) const;

 private:
  std::map<std::string, std::deque<Point>> points_;  // by watch::key_of()
};

/// Used memory in percent of the total.
[[nodiscard]] std::optional<double> memory_percent(const model::Device& device);

}  // namespace berth::top
