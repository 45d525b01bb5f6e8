#include "cli/slurm_epilog.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "cli/scontrol.hpp"

namespace berth::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Orphan {
  Descriptor handle;
  bool ended = false;
};

/// Opens a pidfd for a process of the job. The pidfd is opened first, and then /proc is read. So a
/// process that has reused the pid is not taken for it.
Descriptor handle_of(const EndedJob& job, std::int64_t pid) {
  Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
  if (!handle) return handle;
  const std::string folder = "/proc/" + std::to_string(pid);
  constexpr std::size_t kMost = 4U << 20U;
  const std::string variables = slurp(folder + "/environ", kMost).value_or("");
  const std::string groups = slurp(folder + "/cgroup", kMost).value_or("");
  return engines::is_of_job(variables, groups, job.id) ? std::move(handle) : Descriptor();
}

int signal_one(const Orphan& orphan, int signal) {
  return static_cast<int>(
      ::syscall(SYS_pidfd_send_signal, orphan.handle.get(), signal, nullptr, 0));
}

/// Sends the signal to the processes that are still alive. Waits until none is left, or for at most
/// the time `most`.
void end_all(std::vector<Orphan>& orphans, int signal, std::chrono::milliseconds most) {
  for (const Orphan& one : orphans)
    if (!one.ended) static_cast<void>(signal_one(one, signal));
  const auto until = Clock::now() + most;
  for (;;) {
    bool lives = false;
    for (Orphan& one : orphans) {
      one.ended = one.ended || signal_one(one, 0) != 0;
      lives = lives || !one.ended;
    }
    if (!lives || Clock::now() >= until) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

std::optional<EndedJob> ended_job(const std::vector<int>& gpus) {
  const auto number = [](const char* name, std::int64_t most) -> std::optional<std::int64_t> {
    const auto value = to_number(env(name).value_or(""));
    return value && *value >= 0 && *value <= most ? value : std::nullopt;
  };
  const auto id = number("SLURM_JOB_ID", std::numeric_limits<std::uint32_t>::max());
  const auto uid = number("SLURM_JOB_UID", std::numeric_limits<std::uint32_t>::max());
  if (!id || !uid || *id == 0) return std::nullopt;
  return EndedJob{static_cast<std::uint64_t>(*id), static_cast<std::uint32_t>(*uid), gpus};
}

int end_orphans(const EndedJob& job, const model::Snapshot& snapshot) {
  constexpr std::chrono::milliseconds kTerm(2000), kKill(3000);
  std::vector<Orphan> orphans;
  for (const model::DeviceProcess& one : engines::processes_of(snapshot, job.gpus, job.uid))
    if (Descriptor handle = handle_of(job, *one.pid)) orphans.push_back({std::move(handle)});
  if (orphans.empty()) return 0;
  end_all(orphans, SIGTERM, kTerm);
  end_all(orphans, SIGKILL, kKill);
  return static_cast<int>(
      std::count_if(orphans.begin(), orphans.end(), [](const Orphan& one) { return one.ended; }));
}

std::string wait_for_rest(const EndedJob& job, const std::function<model::Snapshot()>& look) {
  constexpr int kTries = 6;
  std::string left;
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    left = engines::left_on(look(), job.gpus);
    if (left.empty()) break;
  }
  return left;
}

void comment_job(const EndedJob& job, const engines::JobEnd& end) {
  const std::string id = std::to_string(job.id);
  const auto shown = said_by({"scontrol", "show", "job", id, "--oneliner"});
  if (!shown || !engines::may_comment(*shown)) return;
  const std::string comment = "AdminComment=" + engines::job_comment(end);
  if (said_by({"scontrol", "update", "JobId=" + id, comment})) return;
  // In Slurm 22.05, scontrol cannot change a job that has ended, so change it in the accounting
  // database.
  static_cast<void>(said_by(
      {"sacctmgr", "--immediate", "update", "job", "where", "jobid=" + id, "set", comment}));
}

}  // namespace berth::cli
