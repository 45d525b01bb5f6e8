// What a job is started with, and what its caller gave us that the job must get unchanged. Plain
// values.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/limits.hpp"

namespace berth::run {

/// Who somebody is to the kernel.
struct Credentials {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
};

struct Supervision;  // run/supervisor.hpp

struct Launch {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // NAME=value, all of it
  std::vector<int> cpus;                 // processors to stay on; empty: as it is
  std::string job_folder;                // where the keeper writes the exit status; "" nowhere
  // The keeper must be in the job's control group before it starts anything: it waits for the
  // front.
  bool enclosed = false;
  // Of a job that is started for somebody who is not here; else these are inherited.
  std::string folder;  // to start in
  std::optional<mode_t> mask;
  model::Limits limits;             // to have from then on
  std::optional<Credentials> user;  // to become; only root can become another
  std::string group;                // folder of the control group to enter before that; "" none
  std::string job_files;            // of a queued one: its files' names begin so (queued.hpp)
  std::vector<std::string> locks;   // of its devices, that its keeper shares
  std::string job_record;           // of a queued one, kept in its files; no NUL in it
  // Between SIGTERM and SIGKILL, where somebody wants its end.
  std::chrono::milliseconds grace{10'000};
  std::string on_end;  // a shell command to run after it; "" none
  // With it the workload is our supervisor, which starts the command, as ranks or again; not kept
  // in a record.
  std::shared_ptr<const Supervision> supervision;
};

/// The caller's own: the job gets these, whatever we do to ourselves.
struct Inherited {
  std::vector<int> descriptors;  // open at our start besides 0, 1, 2; ascending
  sigset_t mask;
  struct sigaction on_child;
};

/// To be called before anything is opened. Fills empty places among 0, 1, 2 with /dev/null that an
/// exec closes, so that no descriptor of ours ever gets such a number, and lists the others.
[[nodiscard]] Inherited inherit();
/// Blocks every signal that can be blocked; they are read from signalfd from now on.
void block_signals(Inherited& inherited);
/// Those that wait because they are blocked; bit N-1 is signal N.
[[nodiscard]] std::uint64_t pending_signals();
/// An exec from here passes on what was inherited and nothing of ours.
void close_ours_on_exec(const Inherited& inherited);
/// Closes what the caller had open besides 0, 1, 2: our copy would keep a pipe open that the job
/// has closed.
void close_inherited(const Inherited& inherited);
/// Closes everything above 2 but these (for a process that never execs).
void close_all_but(std::vector<int> kept);
/// Points `first`..`last` (of 0, 1, 2) to /dev/null, for the same reason.
void let_go_of_standard_streams(int first, int last);

}  // namespace berth::run
