// What the job's processes do while it runs: how often the main process runs, and how often it
// waits for its workers. It is derived from repeated reads of /proc. Pure.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace berth::run {

/// A process of the job, as one read of /proc shows it.
struct SeenProcess {
  pid_t pid = 0, parent = 0;
  std::string name;  // as in /proc/PID/comm
  char state = '?';  // state of its main thread, as in /proc/PID/stat
  std::chrono::milliseconds cpu{0};
};

/// What one main process did, in seconds. The main process is the command; in a job with ranks,
/// each rank is one.
struct MainActivity {
  double seconds = 0;  // how long it was observed
  double runs = 0;     // how long its main thread ran, or waited for a core
  double on_disk = 0;  // how long its main thread waited in the kernel, for example for a disk
  double waits_for_workers = 0;  // how long it waited while one of its descendants ran
  // process-seconds: the sum of the time for which each of its descendants was observed
  double workers = 0;
  // the part of `workers` of the processes that ran while the main process waited for them
  double busy_workers = 0;

  [[nodiscard]] double part(double what) const { return seconds > 0 ? what / seconds : 0; }
  void operator+=(const MainActivity& other);
};

class Activity {
 public:
  using Clock = std::chrono::steady_clock;

  /// `root` is the parent of the command. `supervised`: `root` is the parent of our supervisor, and
  /// the ranks are the supervisor's children.
  Activity(pid_t root, bool supervised, Clock::time_point start)
      : root_(root), supervised_(supervised), last_(start) {}

  void add(const std::vector<SeenProcess>& processes, Clock::time_point now);
  /// The activity of each main process, by the pid of the command or rank.
  [[nodiscard]] const std::map<pid_t, MainActivity>& mains() const { return mains_; }
  /// The sum of the values of all main processes.
  [[nodiscard]] MainActivity all() const;

 private:
  pid_t root_;
  bool supervised_;
  Clock::time_point last_;
  std::map<pid_t, MainActivity> mains_;
};

}  // namespace berth::run
