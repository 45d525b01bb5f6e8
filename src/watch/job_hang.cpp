#include "watch/job_hang.hpp"

#include <algorithm>

#include "watch/guard_shares.hpp"

namespace berth::watch {

namespace {

/// A job whose time share was never higher than this has not begun its work.
constexpr double kLeastWork = 5;  // percent
/// Seconds for which a job without a process on a device is remembered.
constexpr double kRemembered = 12 * 3600.0;

}  // namespace

JobHangs::Jobs JobHangs::add(const Frame& frame) {
  Jobs jobs;
  std::map<std::uint64_t, double> most;  // each job's largest known time share
  std::map<std::uint64_t, bool> is_known;
  for (const model::DeviceProcess& process : frame.snapshot.processes) {
    if (!process.job) continue;
    Found& found = jobs[*process.job];
    found.user = process.user;
    if (process.uid) found.uid = process.uid;
    if (process.pid) found.pids.push_back(*process.pid);
    const auto share = time_share(process);
    double& largest = most[*process.job];
    largest = std::max(largest, share.value_or(0));
    bool& known = is_known.try_emplace(*process.job, true).first->second;
    known = known && share;
  }
  for (auto& [id, found] : jobs) {
    if (most[id] >= kLeastWork || worked_.contains(id)) worked_[id] = frame.seconds;
    if (most[id] > 0)
      found.is_still = false;
    else if (is_known[id] && worked_.contains(id))
      found.is_still = true;
  }
  std::erase_if(worked_, [&](const auto& one) { return frame.seconds - one.second > kRemembered; });
  return jobs;
}

}  // namespace berth::watch
