// JobGrowth: finds jobs whose memory on a device grows without a pause, and would fill the device
// soon. Pure: the frames carry the time.
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
    /// Whether the memory grows; decided every ten minutes. nullopt: not known now.
    std::optional<bool> grows;
  };
  /// The key is the index of a device and a job. Jobs without a process on the device are not in
  /// the map.
  using Jobs = std::map<std::pair<int, std::uint64_t>, Found>;
  Jobs add(const Frame& frame);

 private:
  struct Step {
    double begun = 0, most = 0;  // seconds, bytes
    std::optional<double> before;
  };
  std::map<std::pair<int, std::uint64_t>, Step> steps_;
};

}  // namespace berth::watch
