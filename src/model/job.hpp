// Job: what the broker knows about a job, from submission to long after its end. A running job has
// a lease. `berth run` in a terminal also makes a job, whose command the broker does not start.
// Plain values.
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

/// kLost: the job was running, and its outcome is unknown, for example after a power failure.
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

/// Identifies a process until the machine restarts.
struct ProcessId {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;                       // field 22 of /proc/PID/stat
  auto operator<=>(const ProcessId&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// A device or partition that is assigned to the job, or memory on it.
struct Grant {
  std::string unit;                // policy::unit_id
  std::uint64_t memory_bytes = 0;  // 0: exclusive
  int share_permille = 0;          // share of the device's time; 0: none was requested
  bool made = false;  // a MIG partition that the broker made for the job, and removes at its end
  bool operator==(const Grant&) const = default;
};

/// A task of a job array: one of many similar jobs, each with its own number. The array has an id
/// of its own, which no job has.
struct ArrayTask {
  JobId array = 0;
  int index = 0;
  int at_most = 0;  // how many tasks of the array wait or run at the same time; 0: all
  bool operator==(const ArrayTask&) const = default;
};

/// How a running job is being ended by a user or by its time limit, and what will be reported about
/// it. kWaiting: the job goes back to the queue, because another job needs its devices.
struct ToldToEnd {
  JobState state = JobState::kCancelled;
  std::string why;
  std::string by = {};  // the user who cancelled the job; "" if none did
};

/// The next try of a queued job after a failed one. The job goes back to the queue, because the
/// next try needs other devices, or memory that other programs use. The job's own `berth run`
/// requests this just before it ends.
struct QueuedTry {
  int number = 2;                      // of the next try
  std::string after;                   // class of the failed try: model::name(TryClass)
  std::vector<std::string> without;    // policy::unit_id of devices that it must not get
  std::chrono::milliseconds pause{0};  // the time before it may start
};

/// Default time between SIGTERM and SIGKILL: enough to save a checkpoint. The help of --grace and
/// docs/api.md name it, too.
inline constexpr std::chrono::milliseconds kDefaultGrace(10'000);

/// Default time between the signal of --checkpoint-signal and SIGTERM. The help of that option and
/// docs/jobs.md name it, too.
inline constexpr std::chrono::milliseconds kDefaultCheckpointTime(30'000);

/// --signal: the signal that a job gets some time before its time limit.
struct Warning {
  int signal = 0;
  std::chrono::milliseconds before{0};
  bool at_any_end = false;  // --checkpoint-signal: also before a cancel or a shutdown ends the job
};
/// Whether the signal can be sent before that time limit.
[[nodiscard]] bool fits(const Warning& warning,
                        std::optional<std::chrono::milliseconds> time_limit);
/// "USR1" for SIGUSR1; "" if --signal does not allow this signal.
[[nodiscard]] std::string_view warning_name(int signal);
/// "USR1" or "SIGUSR1"; nullopt if the name is not allowed.
[[nodiscard]] std::optional<int> warning_signal(std::string_view name);

/// What a job's own processes used, as counted by the job's keeper.
struct JobUsage {
  std::optional<std::chrono::milliseconds> cpu;
  std::optional<std::uint64_t> peak_memory_bytes;  // peak memory of its largest process
};

/// The outcome of a job that was cancelled or timed out. `own` is how its command ended. Such a job
/// has failed, even if its command trapped SIGTERM and exited with 0. Its exit code is always 143.
[[nodiscard]] Outcome outcome_of(const ToldToEnd& how, const std::optional<Outcome>& own);

/// The most restarts of a job, so that a job that crashes the machine is not restarted forever.
inline constexpr int kMostRestarts = 5;

struct Job {
  JobId id = 0;
  std::optional<ArrayTask> task;
  std::uint32_t uid = 0;
  std::string user, name;
  Request request;
  std::vector<std::string> command;
  bool queued =
      false;  // the broker starts the command; otherwise the holder of the lease starts it
  bool requeue = false;      // restart the job if the machine stops while the job runs
  int restarts = 0;          // how often it was restarted
  bool preemptible = false;  // may be ended for a job that is not preemptible; then waits again
  int preemptions = 0;       // how often that happened
  // The next try that the job requested. Used if the job ends with a failure.
  std::optional<QueuedTry> next_try;
  int retries = 0;                     // how often the job went back to the queue for another try
  std::vector<std::string> avoids;     // policy::unit_id of devices on which a try failed
  std::chrono::milliseconds pause{0};  // how long after `requeued` the next try may start
  std::chrono::milliseconds ran_before{0};  // run time of the job's earlier tries
  std::string log;  // output file of a job that the broker starts; for display only
  // For display only: if this row stands for several jobs of an array, their indices.
  std::string alike;
  int priority = 0, tier = 0;  // as in policy/queue.hpp
  std::optional<std::chrono::milliseconds> time_limit;
  // Use the CPU if the job has waited this long.
  std::optional<std::chrono::milliseconds> or_cpu_after;
  std::optional<std::chrono::milliseconds> grace;  // nullopt: kDefaultGrace
  std::optional<Warning> warning;                  // signal to send before the job is ended
  bool warned = false;
  std::vector<JobId> after;         // starts when these jobs or arrays have succeeded
  std::vector<JobId> after_any;     // starts when these jobs or arrays have ended, with any outcome
  std::vector<JobId> after_not_ok;  // … have failed
  // Position in the queue after two jobs were swapped. 0: the id is the position.
  JobId place = 0;
  std::string on_end;   // a shell command that the job's keeper runs after the job
  bool notify = false;  // write a line to the user's terminals when the job ends
  // The terminal from which the job was queued; "" if none or if `notify` is false.
  std::string terminal;
  std::string key;  // submitting a job with the same key again returns this job

  JobState state = JobState::kWaiting;
  std::int64_t submitted_unix_milliseconds = 0;
  std::optional<std::int64_t> requeued_unix_milliseconds;  // when the job was put back
  std::optional<std::int64_t> started_unix_milliseconds, ended_unix_milliseconds;
  std::vector<Grant> grants;
  std::vector<int> cpus;          // CPUs that are reserved for the job, ascending
  std::string affinity;           // CPU affinity, kernel list format; "" unchanged
  std::vector<ProcessId> owners;  // the job runs while one of these is alive
  std::string group;              // folder of the job's cgroup; "" if it runs in none
  Access access = Access::kVariable;
  // How often the kernel denied the job access to a device without a lease.
  std::uint64_t refusals = 0;
  std::optional<ToldToEnd> told_to_end;
  std::optional<Outcome> outcome;
  std::optional<Outcome> last_outcome;  // how the last start ended, if the job waits again
  std::string why;       // a sentence about the end, if the outcome does not say enough
  std::string ended_by;  // the user who cancelled the job
  JobUsage usage;
  // Processes that could not be killed, because they are blocked in the kernel.
  std::vector<ProcessId> stuck;
};

/// The number to show and to name the job by: "12", or "7_3" for a task of an array.
[[nodiscard]] std::string job_number(const Job& job);

/// When a waiting job may start, and what prevents it now.
struct JobOutlook {
  struct Release {
    JobId job = 0;
    std::int64_t unix_milliseconds = 0;
    // true: the time is the job's time limit. false: it is estimated from the run time.
    bool by_limit = false;
  };
  std::string obstruction = "nothing";  // one of the names in policy/queue.hpp
  std::vector<JobId> before;
  // Time at which the job would fit if no other job were submitted.
  std::optional<std::int64_t> fits_at;
  std::vector<Release> releases;  // expected ends of running jobs
};

/// Resets the job to the state before it was started.
void take_back(Job& job, JobState state);
/// Puts the job back into the queue, for its next try or because it was ended for another job.
/// `outcome`: how its command ended.
void wait_again(Job& job, const std::optional<Outcome>& outcome,
                std::int64_t now_unix_milliseconds);
/// The part of its time limit that earlier tries left; nullopt: no limit.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_left(const Job& job);

}  // namespace berth::model
