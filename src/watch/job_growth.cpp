#include "watch/job_growth.hpp"

#include <algorithm>

namespace berth::watch {

namespace {

constexpr double kStep = 600, kSoon = 4 * 3600.0;
/// Memory counts as growing only if it is more than 1 % larger than in the step before.
constexpr double kLeastGrowth = 1.01;

std::optional<double> free_bytes(const Frame& frame, int index) {
  for (const model::Device& device : frame.snapshot.devices) {
    const auto& total = device.readings.memory_total_bytes;
    const auto& used = device.readings.memory_used_bytes;
    if (device.index == index && total && used && *total >= *used)
      return static_cast<double>(*total - *used);
  }
  return std::nullopt;
}

}  // namespace

JobGrowth::Jobs JobGrowth::add(const Frame& frame) {
  Jobs jobs;
  std::map<std::pair<int, std::uint64_t>, std::optional<double>> memory;
  for (const model::DeviceProcess& process : frame.snapshot.processes) {
    if (!process.job) continue;
    const std::pair key(process.device, *process.job);
    jobs[key].user = process.user;
    auto& sum = memory.try_emplace(key, 0.0).first->second;
    if (sum && process.memory_bytes)
      *sum += static_cast<double>(*process.memory_bytes);
    else
      sum.reset();
  }
  std::erase_if(steps_, [&](const auto& one) { return !jobs.contains(one.first); });
  for (const auto& [key, bytes] : memory) {
    if (!bytes) continue;
    const auto [found, is_new] = steps_.try_emplace(key, Step{frame.seconds, *bytes, {}});
    Step& step = found->second;
    step.most = std::max(step.most, *bytes);
    if (is_new || frame.seconds - step.begun < kStep) continue;
    const double seconds = frame.seconds - step.begun;
    const auto left = free_bytes(frame, key.first);
    if (step.before && left)
      jobs[key].grows = step.most > kLeastGrowth * *step.before &&
                        (step.most - *step.before) / seconds * kSoon > *left;
    step = {frame.seconds, *bytes, step.most};
  }
  return jobs;
}

}  // namespace berth::watch
