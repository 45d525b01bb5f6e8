#include "serve/watches.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio.hpp>
#include <string>

#include "base/file.hpp"
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

struct Watches::Watch {
  model::ProcessId process;
  std::unique_ptr<asio::posix::stream_descriptor> handle;
};

Watches::Watches(asio::io_context& loop, std::function<void(JobId)> all_gone)
    : loop_(loop), all_gone_(std::move(all_gone)) {}
Watches::~Watches() = default;

void Watches::watch(JobId job, const std::vector<model::ProcessId>& processes) {
  auto& watches = watched_[job];
  watches.clear();
  for (const model::ProcessId& one : processes) {
    const int handle = static_cast<int>(::syscall(SYS_pidfd_open, one.pid, 0));
    // Not this process any more: its number was given to another.
    if (handle >= 0 && start_ticks_of(one.pid) != one.start_ticks) {
      ::close(handle);
      continue;
    }
    if (handle < 0) continue;
    watches.push_back({one, std::make_unique<asio::posix::stream_descriptor>(loop_, handle)});
    watches.back().handle->async_wait(asio::posix::stream_descriptor::wait_read,
                                      [this, job, one](boost::system::error_code problem) {
                                        if (!problem) gone(job, one);
                                      });
  }
  if (!watches.empty() || processes.empty()) return;
  watched_.erase(job);
  asio::post(loop_, [this, job] { all_gone_(job); });
}

void Watches::forget(JobId job) {
  watched_.erase(job);
}

bool Watches::signal(JobId job, int number) {
  const auto found = watched_.find(job);
  if (found == watched_.end()) return false;
  for (const Watch& one : found->second)
    if (::syscall(SYS_pidfd_send_signal, one.handle->native_handle(), number, nullptr, 0) == 0)
      return true;
  return false;
}

void Watches::signal_others(JobId job, int number) {
  const auto found = watched_.find(job);
  if (found == watched_.end()) return;
  for (std::size_t i = 1; i < found->second.size(); ++i)
    ::syscall(SYS_pidfd_send_signal, found->second[i].handle->native_handle(), number, nullptr, 0);
}

std::vector<JobRoot> Watches::roots() const {
  std::vector<JobRoot> roots;
  for (const auto& [job, watches] : watched_)
    for (const Watch& one : watches) roots.push_back({job, one.process.pid});
  return roots;
}

void Watches::gone(JobId job, const model::ProcessId& process) {
  const auto found = watched_.find(job);
  if (found == watched_.end()) return;
  std::erase_if(found->second, [&](const Watch& one) { return one.process == process; });
  if (!found->second.empty()) return;
  watched_.erase(found);
  all_gone_(job);
}

}  // namespace berth::serve
