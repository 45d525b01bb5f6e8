// Samples the job's processes from outside: their memory, loaded libraries and open device nodes.
// Caches keep it cheap. A process that did not belong to the job when it was first seen is ignored
// from then on. A process with unchanged size has loaded nothing new.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "run/activity.hpp"
#include "run/gpu_files.hpp"

namespace berth::run {

/// Processor time of the calling thread, which measures the cost of a look (one sample). Wall time
/// would also count the time that the thread waits on a busy machine. Then looks would become rare.
[[nodiscard]] std::chrono::nanoseconds processor_time();

class JobProcesses {
 public:
  using Clock = std::chrono::steady_clock;

  /// Covers all descendants of `root`.
  explicit JobProcesses(pid_t root, std::string proc = "/proc")
      : root_(root), proc_(std::move(proc)) {}

  /// Covers the processes of a container as well. The file will contain the container's id.
  void also_of(std::string container_id_file) { id_file_ = std::move(container_id_file); }
  void look(Clock::time_point now);
  /// Counts the running threads of the processes in the last look. Does nothing if it counted a
  /// moment ago. Uses at most 1 % of our time.
  void count_runnable(Clock::time_point now);

  [[nodiscard]] bool contains(std::int64_t pid) const;
  /// The pids of the job's processes in the last look.
  [[nodiscard]] std::vector<std::int64_t> pids() const;
  [[nodiscard]] int looks() const { return looks_; }
  /// The longest time for which the files and nodes of a process were not inspected. A process
  /// whose size does not change is inspected only once a second.
  [[nodiscard]] Clock::duration longest_uninspected() const { return longest_uninspected_; }
  /// The largest memory in one look: the sum over the job's processes. If there are several
  /// processes, shared pages are divided among the processes that share them (PSS).
  [[nodiscard]] std::uint64_t peak_memory_bytes() const { return peak_memory_bytes_; }
  /// The memory in the last look; 0: no process was left.
  [[nodiscard]] std::uint64_t memory_bytes() const { return memory_bytes_; }
  /// Whether the peak is the PSS of several processes. Otherwise it is the RSS of one process, or
  /// of processes that may not be inspected.
  [[nodiscard]] bool peak_is_pss() const { return peak_is_pss_; }
  /// The job's processes in the last look.
  [[nodiscard]] const std::vector<SeenProcess>& seen() const { return seen_; }
  /// The largest number of threads of one process. most_threads_of_all(): the largest number of
  /// threads of all processes together in one look. 0: no thread was seen.
  [[nodiscard]] int most_threads() const { return most_threads_; }
  [[nodiscard]] int most_threads_of_all() const { return most_threads_of_all_; }
  /// Threads that ran or waited for a core, on average; nullopt: they were not counted.
  [[nodiscard]] std::optional<double> mean_runnable() const;
  /// Bytes that were read from and written to disks by processes that were seen to wait for a disk.
  [[nodiscard]] std::uint64_t disk_bytes() const { return disk_bytes_; }
  [[nodiscard]] const GpuFiles& gpu_files() const { return gpu_files_; }
  /// Whether a process runs as another user and could not be inspected.
  [[nodiscard]] bool unreadable() const { return unreadable_; }

 private:
  struct Member {
    std::uint64_t virtual_bytes = 0;  // size at the last inspection
    std::optional<Clock::time_point> inspected;
    // when to inspect it again: `soonest` if its size has changed, `latest` if not
    Clock::time_point soonest{}, latest{};
    std::optional<double> own_part;  // PSS divided by RSS, at the last PSS measurement
    Clock::time_point weigh_at{};
    std::optional<std::uint64_t> disk_bytes;  // disk bytes when it was last seen to wait for a disk
  };
  [[nodiscard]] bool weigh(pid_t pid, Member& member, Clock::time_point now);
  void find_members();
  [[nodiscard]] bool is_in_container(pid_t pid) const;
  void read_disk_bytes(pid_t pid, Member& member);
  void inspect(pid_t pid);
  void read_descriptors(const std::string& folder);

  pid_t root_;
  std::string proc_;
  std::string id_file_, container_id_;  // "" none
  std::unordered_map<pid_t, Member> members_;
  std::unordered_set<pid_t> strangers_;
  GpuFiles gpu_files_;
  std::vector<SeenProcess> seen_;
  Clock::time_point count_at_{};
  std::uint64_t counts_ = 0, runnable_sum_ = 0, disk_bytes_ = 0;
  std::uint64_t peak_memory_bytes_ = 0, memory_bytes_ = 0;
  bool peak_is_pss_ = false;
  std::size_t residents_ = 0;  // number of processes that used memory at the last look
  Clock::duration longest_uninspected_{0};
  int looks_ = 0, most_threads_ = 0, most_threads_of_all_ = 0;
  bool unreadable_ = false;
};

}  // namespace berth::run
