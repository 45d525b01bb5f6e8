// The job's processes from outside, look by look: their memory, the libraries
// they have loaded and the device nodes they hold. Cheap by remembering: a process that was none of
// the job's at its first look never becomes one, and one that has not changed its size has loaded
// nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "run/gpu_files.hpp"

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
  /// The largest sum at one look. Of several processes each page counts once: shared pages are
  /// divided among those that share them (PSS).
  [[nodiscard]] std::uint64_t peak_memory_bytes() const { return peak_memory_bytes_; }
  /// That sum was taken over several processes and is PSS; else it is the RSS of one, or of
  /// processes that may not be looked into.
  [[nodiscard]] bool peak_is_pss() const { return peak_is_pss_; }
  [[nodiscard]] const GpuFiles& gpu_files() const { return gpu_files_; }
  /// A process could not be looked into: it runs as another user.
  [[nodiscard]] bool unreadable() const { return unreadable_; }

 private:
  struct Member {
    std::uint64_t virtual_bytes = 0;  // when it was inspected
    Clock::time_point soonest{},
        latest{};                    // of the next inspection: where its size has changed, or not
    std::optional<double> own_part;  // PSS over RSS, when it was weighed last
    Clock::time_point weigh_at{};
  };
  [[nodiscard]] bool weigh(pid_t pid, Member& member, Clock::time_point now);
  void find_members();
  void inspect(pid_t pid);
  void read_descriptors(const std::string& folder);

  pid_t root_;
  std::string proc_;
  std::unordered_map<pid_t, Member> members_;
  std::unordered_set<pid_t> strangers_;
  GpuFiles gpu_files_;
  std::uint64_t peak_memory_bytes_ = 0;
  bool peak_is_pss_ = false;
  std::size_t residents_ = 0;  // processes with memory, at the last look
  int looks_ = 0;
  bool unreadable_ = false;
};

}  // namespace berth::run
