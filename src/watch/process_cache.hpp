// Reads the values that process rows show from /proc. It is called often, so constant values are
// kept by pid and start time, and only `stat` is read again.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "model/process.hpp"
#include "system/pid_namespace.hpp"
#include "system/process_text.hpp"

namespace berth::watch {

class ProcessCache {
 public:
  using Clock = std::chrono::steady_clock;
  ProcessCache(Roots roots, bool simulated);

  /// Fills user, command, container, state, CPU and memory of every row; forgets processes that are
  /// not in `rows`. CPU is the mean since the last call; for a new process, since its start.
  /// Parents are read again only when other processes are in `rows`. A process that has been idle
  /// for five calls is read at every third call.
  void fill(std::vector<model::DeviceProcess>& rows, Clock::time_point now);

 private:
  struct Known {
    model::DeviceProcess row;  // from /proc
    Descriptor stat_file;      // kept open, if there are enough descriptors
    std::uint64_t cpu_ticks = 0;
    Clock::time_point read_at, aged_at;  // aged_at: when age_seconds was computed
    int idle = 0;                        // number of successive reads without a change
    int left_out = 0;                    // number of calls since the last read
    bool has_ticks = false, is_used = false;
  };
  using Identity = std::pair<std::int64_t, std::uint64_t>;  // pid, start ticks
  bool refresh(Known& known, Clock::time_point now);
  static bool may_be_left_out(Known& known);
  [[nodiscard]] std::optional<system::StatLine> stat_of(Known& known);
  [[nodiscard]] std::optional<system::StatLine> stat_of(std::int64_t pid) const;
  void fill_parents(std::vector<model::DeviceProcess>& rows);
  [[nodiscard]] std::map<std::int64_t, std::int64_t> find_parents() const;

  Roots roots_;
  system::PidTranslator translator_;
  std::size_t most_open_, open_ = 0;     // files kept open
  std::map<std::int64_t, Known> known_;  // by the pid from the driver; without one, by our pid
  std::set<Identity> listed_;
  std::map<std::int64_t, std::int64_t> parents_;  // the ancestor that is in listed_, by pid
};

}  // namespace berth::watch
