#include "serve/watches.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <cerrno>
#include <csignal>
#include <string>

#include "base/file.hpp"
#include "run/descendants.hpp"
#include "system/process_text.hpp"

namespace berth::serve {

namespace asio = boost::asio;
using model::JobId;

std::optional<std::uint64_t> start_ticks_of(std::int64_t pid) {
  const auto line = slurp("/proc/" + std::to_string(pid) + "/stat", 4096);
  const auto stat = line ? system::parse_stat(*line) : std::nullopt;
  return stat ? std::optional(stat->start_ticks) : std::nullopt;
}

std::optional<std::uint32_t> uid_of(std::int64_t pid) {
  const auto status = slurp("/proc/" + std::to_string(pid) + "/status", 8192);
  return status ? system::parse_status(*status).uid : std::nullopt;
}

/// True only if the process is certainly gone. If it cannot be checked, because no descriptor is
/// free, it counts as alive.
bool is_gone(const model::ProcessId& process, int handle) {
  const auto pid = static_cast<pid_t>(process.pid);
  const long there =
      handle >= 0 ? ::syscall(SYS_pidfd_send_signal, handle, 0, nullptr, 0) : ::kill(pid, 0);
  if (there != 0 && errno == ESRCH) return true;
  const auto ticks = start_ticks_of(process.pid);
  return ticks && *ticks != process.start_ticks;  // the pid was reused
}

/// Checks the pidfd again, because Asio may deliver an event of a closed descriptor to the new
/// descriptor that reuses its number.
bool has_ended(int handle) {
  pollfd wait{handle, POLLIN, 0};
  return ::poll(&wait, 1, 0) > 0;
}

struct Watches::Watch {
  std::unique_ptr<asio::posix::stream_descriptor> handle;  // null: too many files are open
  std::set<JobId> jobs;

  [[nodiscard]] bool send(const model::ProcessId& process, int number,
                          siginfo_t* info = nullptr) const {
    const auto pid = static_cast<pid_t>(process.pid);
    if (handle)
      return ::syscall(SYS_pidfd_send_signal, handle->native_handle(), number, info, 0) == 0;
    if (is_gone(process, -1)) return false;
    return info == nullptr ? ::kill(pid, number) == 0
                           : ::sigqueue(pid, number, info->si_value) == 0;
  }
};

Watches::Watches(asio::io_context& loop, std::function<void(JobId)> all_gone)
    : loop_(loop), all_gone_(std::move(all_gone)) {}
Watches::~Watches() = default;

Watches::Watch* Watches::watch_of(const model::ProcessId& process) {
  const auto found = watches_.find(process);
  if (found != watches_.end()) return &found->second;
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0));
  if (is_gone(process, handle)) {
    if (handle >= 0) ::close(handle);
    return nullptr;
  }
  Watch& watch = watches_[process];
  if (handle < 0) return &watch;
  watch.handle = std::make_unique<asio::posix::stream_descriptor>(loop_, handle);
  wait_for_the_end(process);
  return &watch;
}

void Watches::wait_for_the_end(const model::ProcessId& process) {
  const auto found = watches_.find(process);
  if (found == watches_.end()) return;
  found->second.handle->async_wait(asio::posix::stream_descriptor::wait_read,
                                   [this, process](boost::system::error_code problem) {
                                     if (!problem) look_at(process);
                                   });
}

void Watches::look_at(const model::ProcessId process) {
  const auto found = watches_.find(process);
  if (found == watches_.end()) return;
  if (has_ended(found->second.handle->native_handle())) return gone(process);
  wait_for_the_end(process);
}

void Watches::watch(JobId job, const std::vector<model::ProcessId>& processes) {
  std::vector<model::ProcessId> there;
  for (const model::ProcessId& one : processes)
    if (Watch* watch = watch_of(one)) {
      watch->jobs.insert(job);
      there.push_back(one);
    }
  const auto before = watched_.find(job);
  if (before != watched_.end())
    for (const model::ProcessId& one : before->second)
      if (std::find(there.begin(), there.end(), one) == there.end()) leave(one, job);
  const bool is_alone = there.empty();
  watched_[job] = std::move(there);
  if (!is_alone || processes.empty()) return;
  watched_.erase(job);
  asio::post(loop_, [this, job] { all_gone_(job); });
}

void Watches::leave(const model::ProcessId& process, JobId job) {
  const auto found = watches_.find(process);
  if (found == watches_.end()) return;
  found->second.jobs.erase(job);
  if (!found->second.jobs.empty()) return;
  // A process that had a lease often requests another one, so keep its handle for a while.
  constexpr std::size_t kMostIdle = 256;
  idle_.insert(process);
  while (idle_.size() > kMostIdle) forget_idle(*idle_.begin());
}

void Watches::forget_idle(const model::ProcessId process) {
  const auto found = watches_.find(process);
  if (found != watches_.end() && found->second.jobs.empty()) watches_.erase(found);
  idle_.erase(process);
}

void Watches::forget(JobId job) {
  const auto found = watched_.extract(job);
  if (found.empty()) return;
  for (const model::ProcessId& one : found.mapped()) leave(one, job);
}

bool Watches::signal(JobId job, int number) {
  const auto found = watched_.find(job);
  return found != watched_.end() &&
         std::any_of(found->second.begin(), found->second.end(), [&](const model::ProcessId& one) {
           return watches_.at(one).send(one, number);
         });
}

bool Watches::signal_keeper(JobId job, int number) {
  return tell_keeper(job, number, nullptr);
}

bool Watches::queue_to_keeper(JobId job, int number, int value) {
  siginfo_t info = run::queued_signal(number, value);
  return tell_keeper(job, number, &info);
}

bool Watches::tell_keeper(JobId job, int number, siginfo_t* info) {
  const auto found = watched_.find(job);
  if (found == watched_.end()) return false;
  bool any = false;
  const auto& all = found->second;
  for (std::size_t i = all.size() > 1 ? 1 : 0; i < all.size(); ++i)
    any = watches_.at(all[i]).send(all[i], number, info) || any;
  return any;
}

std::size_t Watches::count(JobId job) const {
  const auto found = watched_.find(job);
  return found == watched_.end() ? 0 : found->second.size();
}

std::vector<JobRoot> Watches::roots() const {
  std::vector<JobRoot> roots;
  for (const auto& [job, processes] : watched_)
    for (const model::ProcessId& one : processes) roots.push_back({job, one.pid});
  return roots;
}

void Watches::look_again() {
  std::vector<model::ProcessId> gone_ones;
  for (const auto& [process, watch] : watches_)
    if (!watch.handle && is_gone(process, -1)) gone_ones.push_back(process);
  for (const model::ProcessId& one : gone_ones) gone(one);
}

void Watches::gone(const model::ProcessId process) {
  idle_.erase(process);
  const auto found = watches_.extract(process);
  if (found.empty()) return;
  for (const JobId job : found.mapped().jobs) {
    const auto of_job = watched_.find(job);
    if (of_job == watched_.end()) continue;
    std::erase(of_job->second, process);
    if (!of_job->second.empty()) continue;
    watched_.erase(of_job);
    all_gone_(job);
  }
}

}  // namespace berth::serve
