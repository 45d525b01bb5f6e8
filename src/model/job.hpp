// Job: what the broker knows of one, from its submission to long after its end. A lease is what a
// running job has; a `berth run` in somebody's terminal is a job whose command the broker does not
// start. Plain values.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/access.hpp"
#include "model/run.hpp"

namespace berth::model {

using JobId = std::uint64_t;

/// kLost: it ran, and nobody knows how it ended (the machine was switched off, say).
enum class JobState : unsigned char {
  kWaiting,
  kHeld,
  kRunning,
  kDone,
  kFailed,
  kCancelled,
  kLost
};
[[nodiscard]] std::string_view name(JobState state);  // "waiting", "held", "running", …
[[nodiscard]] std::optional<JobState> job_state(std::string_view name);
[[nodiscard]] constexpr bool has_ended(JobState state) {
  return state > JobState::kRunning;
}

/// A process by what is never used twice while the machine runs.
struct ProcessId {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;                       // field 22 of /proc/PID/stat
  auto operator<=>(const ProcessId&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// A unit (a device, or a partition) that the job has, or memory on it.
struct Grant {
  std::string unit;                // policy::unit_id
  std::uint64_t memory_bytes = 0;  // 0: alone
  int share_permille = 0;          // of its time; 0: none was asked for
  bool operator==(const Grant&) const = default;
};

/// One of many jobs that are alike, with a number of their own each. The array has an id like a
/// job's, which no job has.
struct ArrayTask {
  JobId array = 0;
  int index = 0;
  int at_most = 0;  // so many of the array wait in line or run at a time; 0: all
  bool operator==(const ArrayTask&) const = default;
};

/// It runs, and somebody or its time limit wants its end: what will be told of it then.
struct ToldToEnd {
  JobState state = JobState::kCancelled;
  std::string why;
};

/// What takes the machine down with it is not started for ever.
inline constexpr int kMostRestarts = 5;

struct Job {
  JobId id = 0;
  std::optional<ArrayTask> task;
  std::uint32_t uid = 0;
  std::string user, name;
  Request request;
  std::vector<std::string> command;
  bool queued = false;         // the broker starts the command; else whoever has the lease does
  bool requeue = false;        // where the machine stops while it runs, it starts anew
  int restarts = 0;            // so often it did
  std::string log;             // where its output goes, of one that the broker starts; told only
  int priority = 0, tier = 0;  // as policy/queue.hpp
  std::optional<std::chrono::milliseconds> time_limit;
  std::optional<std::chrono::milliseconds> or_cpu_after;  // having waited so long, the CPU will do
  std::vector<JobId> after;  // starts when these, jobs or arrays, are done

  JobState state = JobState::kWaiting;
  std::int64_t submitted_unix_milliseconds = 0;
  std::optional<std::int64_t> requeued_unix_milliseconds;  // in line anew since
  std::optional<std::int64_t> started_unix_milliseconds, ended_unix_milliseconds;
  std::vector<Grant> grants;
  std::vector<int> cpus;          // its own ones, ascending
  std::string affinity;           // processors to stay on, kernel list format; "" as it is
  std::vector<ProcessId> owners;  // while one of these lives, it runs
  std::string group;              // folder of its control group, while it runs in one
  Access access = Access::kVariable;
  std::uint64_t refusals = 0;  // how often the kernel refused it a device that was not its own
  std::optional<ToldToEnd> told_to_end;
  std::optional<Outcome> outcome;
  std::string why;  // a sentence about its end, where the outcome does not say it
};

/// "12"; of an array "7_3", by which it may be named as well.
[[nodiscard]] std::string job_number(const Job& job);

/// What a job that waits is waiting for.
struct JobOutlook {
  struct Release {
    JobId job = 0;
    std::int64_t unix_milliseconds = 0;
    bool by_limit = false;  // else it is expected, from how long it has run
  };
  std::string obstruction = "nothing";  // as policy's words
  std::vector<JobId> before;
  std::optional<std::int64_t> fits_at;  // when it would fit if nobody else came
  std::vector<Release> releases;        // of what runs
};

}  // namespace berth::model
