// The /proc half of the process rows, for frequent reading: constant values are kept by pid and
// start time, and only `stat` is read again.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include "base/file.hpp"
#include "model/process.hpp"
#include "system/pid_namespace.hpp"

namespace berth::watch {

class ProcessCache {
 public:
  using Clock = std::chrono::steady_clock;
  ProcessCache(Roots roots, bool simulated);

  /// Fills user, command, container, state, CPU and memory of every row; forgets processes that are
  /// not in `rows`. CPU is the mean since the last call; for a new process, since its start.
  void fill(std::vector<model::DeviceProcess>& rows, Clock::time_point now);

 private:
  struct Known {
    model::DeviceProcess row;  // the /proc half
    std::uint64_t cpu_ticks = 0;
    Clock::time_point read_at;
    bool has_ticks = false, is_used = false;
  };
  bool refresh(Known& known, Clock::time_point now) const;

  Roots roots_;
  system::PidTranslator translator_;
  std::map<std::int64_t, Known> known_;  // by the driver's pid if there is one, else ours
};

}  // namespace berth::watch
