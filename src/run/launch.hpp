// How to start a job, and what it must inherit unchanged from Berth's caller. Plain values.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/job.hpp"
#include "model/limits.hpp"

namespace berth::run {

/// A user's ids, as the kernel has them.
struct Credentials {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
};

struct Supervision;  // defined in run/supervisor.hpp

struct Launch {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // all variables, each as NAME=value
  std::vector<int> cpus;                 // processors that the job may use; empty: unchanged
  std::string job_folder;                // where the keeper writes the exit status; "": nowhere
  // The keeper waits for the front before it starts anything. Meanwhile, the front has the keeper
  // moved to the job's control group.
  bool enclosed = false;
  // The following values are for a queued job, whose user may be absent. Any other job inherits
  // them from its caller.
  std::string folder;  // working folder
  std::optional<mode_t> mask;
  model::Limits limits;             // resource limits to set before the start
  std::optional<Credentials> user;  // user to switch to before the start; only root can
  // folder of the control group to enter before switching the user; "": none
  std::string group;
  std::string job_files;           // prefix of the names of a queued job's files (queued.hpp)
  std::vector<std::string> locks;  // lock files of its devices: the keeper takes shared locks
  std::vector<std::string> units;  // the job's devices (policy::unit_id), to sample them
  // For the report of a queued job: its name, the variables that were set, and why it got its
  // devices.
  std::string name;
  std::vector<model::Setting> settings;
  std::vector<std::string> reasons;
  // the broker's record of a queued job, stored in the job's files; contains no NUL
  std::string job_record;
  // The time between SIGTERM and SIGKILL, if the job is cancelled or times out.
  std::chrono::milliseconds grace = model::kDefaultGrace;
  // the signal and time of --checkpoint-signal; if the signal is 0, the option was not given
  model::Warning checkpoint;
  std::string on_end;  // a shell command to run after the job; "": none
  // The command that removes the job's container, which may still exist after the job; empty: none.
  std::vector<std::string> remove_container;
  // The front (`berth run`) keeps the standard streams and inherited descriptors open, because it
  // may start the command once more. Not stored in records.
  bool may_start_again = false;
  // Time in which remaining processes may end by themselves. Not stored in records.
  std::chrono::milliseconds head_start{50};
  // If set, the workload is our supervisor, which starts the command once per rank or per try. Not
  // stored in records.
  std::shared_ptr<const Supervision> supervision;
};

/// The caller's state, which the job gets regardless of our own changes.
struct Inherited {
  // descriptors that were open at our start, except 0, 1, 2; ascending
  std::vector<int> descriptors;
  sigset_t mask;
  struct sigaction on_child;
};

/// Call it before anything is opened. Opens /dev/null, close-on-exec, for missing descriptors among
/// 0, 1, 2, so that no descriptor of ours gets such a number. Lists the other open descriptors.
[[nodiscard]] Inherited inherit();
/// Blocks all signals that can be blocked; from now on they are read from a signalfd.
void block_signals(Inherited& inherited);
/// Undoes block_signals(). A pending signal takes effect now.
void unblock_signals(const Inherited& inherited);
/// Waits for `duration`. Call it after block_signals(). Returns 0 if the time has passed. If a
/// signal arrives that asks the job to end, returns that signal early. The terminal can stop and
/// continue this process meanwhile.
[[nodiscard]] int wait_unless_told_to_end(const Inherited& inherited,
                                          std::chrono::milliseconds duration);
/// Pending blocked signals; bit N-1 is signal N.
[[nodiscard]] std::uint64_t pending_signals();
/// From now on, exec passes on inherited descriptors and none of ours.
void close_ours_on_exec(const Inherited& inherited);
/// Closes the caller's descriptors except 0, 1, 2. Our copy would keep a pipe open that the job has
/// closed.
void close_inherited(const Inherited& inherited);
/// Closes everything above 2 except `kept` (in a process that never calls exec).
void close_all_but(std::vector<int> kept);
/// Redirects the descriptors `first` to `last` (of 0, 1, 2) to /dev/null, so that our copies do not
/// keep a pipe open.
void redirect_standard_streams(int first, int last);

}  // namespace berth::run
