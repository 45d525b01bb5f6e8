// Measures idle devices with `berth bench --keep`, as often as [bench] in berth.toml
// says. It gives way: a measurement ends as soon as a job is submitted.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "model/snapshot.hpp"
#include "system/child_run.hpp"

namespace berth::serve {

/// The idle devices: no job has them, and no program is known to compute on them.
[[nodiscard]] std::vector<const model::Device*> idle_devices(const model::Snapshot& snapshot,
                                                             const std::set<std::string>& leased);

class IdleBench {
 public:
  using Instant = std::chrono::steady_clock::time_point;
  using Note = std::function<void(const std::string&)>;
  using Run = std::function<system::ChildResult(const system::ChildRun&,
                                                const std::atomic<bool>& is_stopped)>;

  /// `every`: the time between two measurements of a device; 0: never measure. Tests replace `run`.
  IdleBench(std::chrono::milliseconds every, std::string state_folder, Note note,
            Run run = system::run_child);
  ~IdleBench();
  IdleBench(const IdleBench&) = delete;
  IdleBench& operator=(const IdleBench&) = delete;

  /// Whether see() needs a snapshot that is not older than a few seconds.
  [[nodiscard]] bool wants_look(Instant now) const { return every_.count() > 0 && now >= look_at_; }
  /// Starts to measure a device that is due and idle, and ends measurements that must give way.
  /// `leased`: the units (policy::unit_id) that jobs have. `is_waited`: a job waits for a device.
  void see(const model::Snapshot& snapshot, const std::set<std::string>& leased, bool is_waited,
           Instant now, std::int64_t unix_milliseconds);
  /// Ends the running measurement, and returns whether there was one. The call takes only
  /// milliseconds.
  bool give_way(Instant now);

 private:
  void begin(const model::Device& device, Instant now);
  void finish(Instant now);
  [[nodiscard]] bool is_due(const std::string& device, Instant now,
                            std::int64_t unix_milliseconds) const;

  std::chrono::milliseconds every_;
  std::string state_folder_;
  Note note_;
  Run run_;
  // when each device was last measured, by bench::device_key; failed measurements count too
  std::map<std::string, Instant> tried_;
  std::string device_, name_;  // the device that is measured now; "" if there is none
  std::thread thread_;
  system::ChildResult result_;
  std::atomic<bool> is_stopped_{false}, is_over_{false};
  Instant look_at_{};
};

}  // namespace berth::serve
