// Reads the values of process rows from /proc. It is called often, so values that do not change are
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

  /// Fills user, command, container, state, CPU and memory of every row. Forgets processes that are
  /// not in `rows`. CPU is the mean since the last call, or since the start of a new process.
  /// Parents are read again only if the processes in `rows` have changed. A process that has been
  /// idle for five calls is read only at every third call.
  void fill(std::vector<model::DeviceProcess>& rows, Clock::time_point now);

 private:
  struct Known {
    model::DeviceProcess row;  // the values from /proc
    Descriptor stat_file;      // the open `stat` file, if there are enough descriptors
    std::uint64_t cpu_ticks = 0;
    Clock::time_point read_at, aged_at;  // age_seconds was computed at `aged_at`
    int idle = 0;                        // number of reads in a row without a change
    int left_out = 0;  // number of calls that skipped this process since its last read
    bool has_ticks = false, is_used = false;
  };
  using Identity = std::pair<std::int64_t, std::uint64_t>;  // pid, start time in ticks
  bool refresh(Known& known, Clock::time_point now);
  static bool may_be_left_out(Known& known);
  [[nodiscard]] std::optional<system::StatLine> stat_of(Known& known);
  [[nodiscard]] std::optional<system::StatLine> stat_of(std::int64_t pid) const;
  void fill_parents(std::vector<model::DeviceProcess>& rows);
  [[nodiscard]] std::map<std::int64_t, std::int64_t> find_parents() const;

  Roots roots_;
  system::PidTranslator translator_;
  std::size_t most_open_, open_ = 0;  // limit and number of open `stat` files
  /// The key is the driver's pid; if there is none, the pid in this namespace.
  std::map<std::int64_t, Known> known_;
  std::set<Identity> listed_;
  std::map<std::int64_t, std::int64_t> parents_;  // pid → nearest ancestor that is in listed_
};

}  // namespace berth::watch
