// Job: what the broker knows about a job, from its submission until long after its end. A running
// job has a lease. `berth run` in a terminal also registers a job, but starts the command itself.
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

/// kLost: the job was running, and it is unknown how it ended, for example because of a power
/// failure.
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

/// Identifies a process until the machine restarts, even if the pid is reused.
struct ProcessId {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;  // start time of the process: field 22 of /proc/PID/stat
  auto operator<=>(const ProcessId&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// A device, a partition, or memory on it, that was assigned to the job.
struct Grant {
  std::string unit;                // id of the device or partition (policy::unit_id)
  std::uint64_t memory_bytes = 0;  // 0 means exclusive use
  int share_permille = 0;  // share of the device's time in thousandths; 0 if none was requested
  // the broker made this MIG partition for the job, and removes it at the job's end
  bool made = false;
  bool operator==(const Grant&) const = default;
};

/// The place of a job in a job array: an array consists of many similar jobs, each with its own
/// number. No job has the number of the array itself.
struct ArrayTask {
  JobId array = 0;
  int index = 0;
  // how many jobs of the array may run or be in the queue at the same time; 0 means all
  int at_most = 0;
  bool operator==(const ArrayTask&) const = default;
};

/// Why a running job is being ended, and the state that it will then have: a user, its time limit,
/// or another job that needs its devices. In the last case the state is kWaiting, because the job
/// goes back to the queue.
struct ToldToEnd {
  JobState state = JobState::kCancelled;
  std::string why;
  std::string by = {};  // name of the user who cancelled the job; "" if it was not cancelled
};

/// A retry of a queued job that failed. The job goes back to the queue, because the retry needs
/// other devices, or memory that other programs use. The `berth run` inside the job requests this
/// just before it ends.
struct QueuedTry {
  int number = 2;                      // number of the next try
  std::string after;                   // why the last try failed: a name of TryClass
  std::vector<std::string> without;    // devices that the next try must not get (policy::unit_id)
  std::chrono::milliseconds pause{0};  // how long the next try waits before it may start
};

/// Default time between SIGTERM and SIGKILL, enough to save a checkpoint. If you change it, also
/// change the help of --grace and docs/api.md.
inline constexpr std::chrono::milliseconds kDefaultGrace(10'000);

/// Default time between the signal of --checkpoint-signal and SIGTERM. If you change it, also
/// change the help of that option and docs/jobs.md.
inline constexpr std::chrono::milliseconds kDefaultCheckpointTime(30'000);

/// A signal that a job gets some time before its time limit (--signal), or before it is ended
/// (--checkpoint-signal).
struct Warning {
  int signal = 0;
  std::chrono::milliseconds before{0};
  // with --checkpoint-signal: also sent before a cancellation or a shutdown ends the job
  bool at_any_end = false;
};
/// Whether the time limit leaves room for the warning before it.
[[nodiscard]] bool fits(const Warning& warning,
                        std::optional<std::chrono::milliseconds> time_limit);
/// The name of a signal, such as "USR1"; "" if --signal does not allow this signal.
[[nodiscard]] std::string_view warning_name(int signal);
/// The number of a signal such as "USR1" or "SIGUSR1"; nullopt if --signal does not allow it.
[[nodiscard]] std::optional<int> warning_signal(std::string_view name);

/// What a job's own processes used. The job's keeper, a process of Berth that runs the job,
/// measures it.
struct JobUsage {
  std::optional<std::chrono::milliseconds> cpu;
  std::optional<std::uint64_t> peak_memory_bytes;  // peak memory of its largest process
};

/// The outcome of a job that was cancelled or timed out. `own` tells how its command ended. The job
/// has failed, even if its command handled SIGTERM and exited with 0. The exit code is always 143.
[[nodiscard]] Outcome outcome_of(const ToldToEnd& how, const std::optional<Outcome>& own);

/// The greatest number of restarts. Without it, a job that crashes the machine would be restarted
/// forever.
inline constexpr int kMostRestarts = 5;

struct Job {
  JobId id = 0;
  std::optional<ArrayTask> task;
  std::uint32_t uid = 0;
  std::string user, name;
  Request request;
  std::vector<std::string> command;
  // true if the broker starts the command; false if `berth run` or another client starts it
  bool queued = false;
  bool requeue = false;  // restart the job if the machine stops while the job runs
  int restarts = 0;      // how often the job was restarted
  // the broker may end it for a job that is not preemptible; it then waits again
  bool preemptible = false;
  int preemptions = 0;  // how often it was ended for another job
  // The next try that the job requested. It counts only if the job fails.
  std::optional<QueuedTry> next_try;
  int retries = 0;                  // how often the job went back to the queue for another try
  std::vector<std::string> avoids;  // devices on which a try failed (policy::unit_id)
  // how long after `requeued_unix_milliseconds` the next try may start
  std::chrono::milliseconds pause{0};
  std::chrono::milliseconds ran_before{0};  // run time of the job's earlier tries
  std::string log;  // output file of a job that the broker starts; for display only
  // If this job stands for several jobs of an array in a table: the indices of these jobs.
  std::string alike;
  int priority = 0, tier = 0;  // explained in policy/queue.hpp
  std::optional<std::chrono::milliseconds> time_limit;
  // The job may use the CPU after it has waited this long for a GPU.
  std::optional<std::chrono::milliseconds> or_cpu_after;
  // time between SIGTERM and SIGKILL; nullopt means kDefaultGrace
  std::optional<std::chrono::milliseconds> grace;
  std::optional<Warning> warning;  // signal to send before the job is ended
  bool warned = false;
  std::vector<JobId> after;         // starts when these jobs or arrays have succeeded
  std::vector<JobId> after_any;     // starts when these jobs or arrays have ended, with any outcome
  std::vector<JobId> after_not_ok;  // starts when these jobs or arrays have failed
  // The position in the queue, if two jobs were swapped. 0 means that the id is the position.
  JobId place = 0;
  std::string on_end;   // a shell command to run after the job
  bool notify = false;  // write a line to the user's terminals when the job ends
  // The terminal from which the job was queued, for `notify`; "" if there is none.
  std::string terminal;
  std::string key;  // if the client submits a job again with this key, it gets this job

  JobState state = JobState::kWaiting;
  std::int64_t submitted_unix_milliseconds = 0;
  // when the job last went back to the queue
  std::optional<std::int64_t> requeued_unix_milliseconds;
  std::optional<std::int64_t> started_unix_milliseconds, ended_unix_milliseconds;
  std::vector<Grant> grants;
  std::vector<int> cpus;  // CPUs that are reserved for the job, ascending
  std::string affinity;   // CPU affinity in the kernel's list format; "" if it is not changed
  std::vector<ProcessId> owners;  // the job counts as running while one of these processes is alive
  std::string group;              // folder of the job's cgroup; "" if it has none
  Access access = Access::kVariable;
  // How often the kernel denied the job access to a device without a lease.
  std::uint64_t refusals = 0;
  std::optional<ToldToEnd> told_to_end;
  std::optional<Outcome> outcome;
  std::optional<Outcome> last_outcome;  // if the job waits again: how it ended the last time
  std::string why;       // a sentence about the job's end; "" if the outcome says enough
  std::string ended_by;  // name of the user who cancelled the job
  JobUsage usage;
  // Processes of an ended job that could not be killed, because they are blocked in the kernel.
  std::vector<ProcessId> stuck;
};

/// The job's number for people: "12", or "7_3" for a task of an array.
[[nodiscard]] std::string job_number(const Job& job);

/// When a waiting job may start, and what prevents it now.
struct JobOutlook {
  struct Release {
    JobId job = 0;
    std::int64_t unix_milliseconds = 0;
    // Whether the end is known from the job's time limit. If not, it is estimated from run times.
    bool by_limit = false;
  };
  // what prevents the start now: one of the names in policy/queue.hpp
  std::string obstruction = "nothing";
  std::vector<JobId> before;
  // The time at which the job could start if no other job were submitted.
  std::optional<std::int64_t> fits_at;
  std::vector<Release> releases;  // when running jobs are expected to end
};

/// Clears everything that starting the job has set, and gives it the state `state`.
void take_back(Job& job, JobState state);
/// Puts the job back into the queue: for its next try, or because it was ended for another job.
/// `outcome` tells how its command ended.
void wait_again(Job& job, const std::optional<Outcome>& outcome,
                std::int64_t now_unix_milliseconds);
/// The part of the time limit that earlier tries have not used; nullopt if there is no time limit.
[[nodiscard]] std::optional<std::chrono::milliseconds> time_left(const Job& job);

}  // namespace berth::model
