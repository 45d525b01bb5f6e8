// The job's processes from outside, look by look: their number of bytes in memory, the libraries
// they have loaded and the device nodes they hold. Cheap by remembering: a process that was none of
// the job's at its first look never becomes one, and one that has not changed its size has loaded
// nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "run/traces.hpp"

namespace berth::run {

class JobProcesses {
 public:
  using Clock = std::chrono::steady_clock;

  /// Everything below `root`.
  explicit JobProcesses(pid_t root, std::string proc = "/proc")
      : root_(root), proc_(std::move(proc)) {}

  void look(Clock::time_point now);

  [[nodiscard]] bool contains(std::int64_t pid) const;
  /// At the last look.
  [[nodiscard]] std::vector<std::int64_t> pids() const;
  [[nodiscard]] int looks() const { return looks_; }
  [[nodiscard]] std::uint64_t peak_rss_bytes() const { return peak_rss_bytes_; }
  [[nodiscard]] const Traces& traces() const { return traces_; }
  /// A process could not be looked into: it runs as another user.
  [[nodiscard]] bool unreadable() const { return unreadable_; }

 private:
  struct Member {
    std::uint64_t virtual_bytes = 0;  // when it was inspected
    Clock::time_point soonest{},
        latest{};  // of the next inspection: where its size has changed, or not
  };
  void find_members();
  void inspect(pid_t pid);
  void read_descriptors(const std::string& folder);

  pid_t root_;
  std::string proc_;
  std::unordered_map<pid_t, Member> members_;
  std::unordered_set<pid_t> strangers_;
  Traces traces_;
  std::uint64_t peak_rss_bytes_ = 0;
  int looks_ = 0;
  bool unreadable_ = false;
};

}  // namespace berth::run
