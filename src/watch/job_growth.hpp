// JobGrowth: finds jobs whose memory on a device grows all the time and would soon fill the device.
// Pure: the frames contain the time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "watch/frame.hpp"

namespace berth::watch {

class JobGrowth {
 public:
  struct Found {
    std::string user;
    /// Whether the memory grows. It is decided every ten minutes. nullopt: not decided yet, or not
    /// known.
    std::optional<bool> grows;
  };
  /// Maps (device index, job) to what was found. Jobs without a process on the device are left out.
  using Jobs = std::map<std::pair<int, std::uint64_t>, Found>;
  Jobs add(const Frame& frame);

 private:
  struct Step {
    double begun = 0, most = 0;  // start in seconds, most memory in bytes
    std::optional<double> before;
  };
  std::map<std::pair<int, std::uint64_t>, Step> steps_;
};

}  // namespace berth::watch
