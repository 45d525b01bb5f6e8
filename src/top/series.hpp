// The graphs' data: the last minutes of each device. Pure.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "watch/frame.hpp"

namespace berth::top {

struct Point {
  std::optional<double> use, memory;  // percent; nullopt: unknown
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
