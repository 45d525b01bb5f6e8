#include "run/queued_watch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/file.hpp"
#include "base/write_file.hpp"
#include "inventory/observe.hpp"
#include "model/cpu_list.hpp"
#include "policy/placement.hpp"
#include "run/channel.hpp"
#include "run/own_name.hpp"
#include "run/sampler.hpp"

namespace berth::run {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

model::Report base_report(const Launch& launch, const WatchEnd& end) {
  model::Report report;
  report.command = launch.command;
  report.name = launch.name;
  report.settings = launch.settings;
  report.reasons = launch.reasons;
  const auto id = to_number(launch.job_files.substr(launch.job_files.rfind('/') + 1));
  if (id && *id > 0) report.job = static_cast<std::uint64_t>(*id);
  report.wall = milliseconds(end.milliseconds);
  report.cpu = milliseconds(end.cpu_microseconds / 1000);
  report.peak_rss_bytes = static_cast<std::uint64_t>(end.peak_rss_kib) * 1024;
  report.checkpoint = end.checkpoint;
  report.cpus = model::show_cpu_list(launch.cpus);
  report.on_cpu_by_request = launch.units.empty();
  report.started_unix_milliseconds =
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count() -
      end.milliseconds;
  for (const std::string& one : launch.environment)
    if (one.starts_with("OMP_NUM_THREADS="))
      report.threads = static_cast<int>(to_number(one.substr(one.find('=') + 1)).value_or(1));
  if (WIFSIGNALED(end.status)) {
    const int signal = WTERMSIG(end.status);
    report.outcome = {model::OutcomeClass::kSignal, 128 + signal, signal};
  } else {
    const int code = WEXITSTATUS(end.status);
    report.outcome = {code == 0 ? model::OutcomeClass::kOk : model::OutcomeClass::kFailed, code,
                      std::nullopt};
  }
  // Report the job as cancelled. Only the broker knows whether a person or the time limit ended it.
  if (end.by_itself == 0) report.outcome = {model::OutcomeClass::kCancelled, 143, std::nullopt};
  return report;
}

/// The devices of this machine. For a job on the CPU, the driver is asked only if there are no GPUs
/// on the bus. Under WSL, only the driver knows the GPUs.
model::Snapshot look_for(const Launch& launch, const inventory::Sources& sources) {
  inventory::Options options;
  options.processes = options.holders = false;
  options.opencl = inventory::OpenCl::kNever;
  if (launch.units.empty()) {
    inventory::Sources without_driver = sources;
    without_driver.nvml_library.clear();
    model::Snapshot snapshot = inventory::observe(without_driver, options);
    const auto& devices = snapshot.devices;
    if (std::any_of(devices.begin(), devices.end(), [](const model::Device& device) {
          return device.kind != model::DeviceKind::kCpu && device.managed;
        }))
      return snapshot;
  }
  return inventory::observe(sources, options);
}

void watch(const Launch& launch, pid_t keeper, pid_t workload, const Descriptor& channel,
           const WriteReport& write) {
  const auto sources = inventory::Sources::from_environment();
  const model::Snapshot snapshot = look_for(launch, sources);
  const auto placed = policy::place_leased({}, launch.units, "", snapshot);
  const model::Placement placement = placed && !launch.units.empty() ? *placed : model::Placement();
  Sampler sampler(sources, snapshot, placement, false);
  sampler.started(keeper, workload);
  WatchEnd end;
  for (int got = 0; (got = receive(channel.get(), end)) <= 0;) {
    if (got < 0) return;  // the keeper was killed, so it is unknown how the job ended
    const auto left = std::chrono::ceil<milliseconds>(sampler.due() - Clock::now()).count();
    std::array<pollfd, 2> waits{{{channel.get(), POLLIN, 0}, {sampler.descriptor(), POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (waits[0].revents == 0) sampler.look();
  }
  sampler.ended();
  static_cast<void>(replace_file(report_of(launch.job_files), write([&] {
                                   model::Report report = base_report(launch, end);
                                   sampler.fill(report, snapshot);
                                   sampler.fill_bottlenecks(report, snapshot);
                                   return report;
                                 }),
                                 0600));
}

}  // namespace

std::string report_of(const std::string& job_files) {
  return job_files + ".report";
}

Descriptor start_watch(const Launch& launch, pid_t workload, const WriteReport& write,
                       int announce) {
  std::array<int, 2> ends{-1, -1};
  if (!write ||
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return {};
  Descriptor ours(ends[0]);
  Descriptor its(ends[1]);
  const pid_t keeper = ::getpid();
  // CLONE_PARENT makes the new process a sibling of the keeper. glibc does not know about a child
  // made in this way, so the child only forks again and exits. The subreaper above us then becomes
  // the parent of the second child.
  const auto between = static_cast<pid_t>(
      ::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (between < 0) return {};
  if (between > 0) return ours;
  if (::fork() != 0) ::_exit(0);
  const pid_t own = ::getpid();
  if (::write(announce, &own, sizeof own) != sizeof own) ::_exit(1);
  ::setsid();
  set_process_name("job-sampler");
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  redirect_standard_streams(0, 2);
  close_all_but({its.get()});
  watch(launch, keeper, workload, its, write);
  ::_exit(0);
}

Descriptor open_report_for(const Launch& launch) {
  Descriptor file(
      ::open(report_of(launch.job_files).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  if (file && launch.user && ::geteuid() == 0 &&
      ::fchown(file.get(), launch.user->uid, launch.user->gid) != 0)
    return {};
  return file;
}

}  // namespace berth::run
