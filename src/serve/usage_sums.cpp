#include "serve/usage_sums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace berth::serve {
namespace {

using watch::Usage;
using watch::UsageRow;

constexpr double kGiB = 1024.0 * 1024 * 1024;

/// The key under which a usage row is added up.
std::string group_of(const UsageRow& row, const std::string& by) {
  if (row.key.user == watch::kNoProcess) return watch::kNoProcess;
  if (by == "job") return row.key.job == 0 ? "-" : std::to_string(row.key.job);
  if (by == "command") return row.key.program.empty() ? "?" : row.key.program;
  return row.key.user.empty() ? "?" : row.key.user;
}

struct Weighted {
  double value, seconds;
};

std::optional<double> p95_of(std::vector<Weighted> values) {
  std::sort(values.begin(), values.end(),
            [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
  double all = 0, below = 0;
  for (const Weighted& one : values) all += one.seconds;
  for (const Weighted& one : values) {
    below += one.seconds;
    if (below >= 0.95 * all) return one.value;
  }
  return std::nullopt;
}

/// The sum of one group while rows are being added.
struct Group {
  Usage all;
  std::map<std::pair<std::int64_t, std::string>, Usage> parts;  // usage by time and device
  std::map<std::string, Usage> devices;
  std::set<std::uint64_t> jobs;

  void add(const UsageRow& row) {
    all.add(row.usage);
    devices[row.key.device].add(row.usage);
    jobs.insert(row.key.job);
    Usage& part = parts[{row.from, row.key.device}];
    // The programs of one group run at the same time. So their memory is added up, but the time in
    // which they held the device is not.
    const double held = std::max(part.held_seconds, row.usage.held_seconds);
    part.add(row.usage);
    part.held_seconds = held;
  }

  [[nodiscard]] UsageSum sum(const std::string& name) const {
    UsageSum sum;
    sum.name = name;
    sum.usage = all;
    std::vector<Weighted> memory, shares;
    for (const auto& [at, part] : parts) {
      if (part.held_seconds <= 0) continue;
      if (part.peak_memory_bytes)
        memory.push_back({part.memory_byte_seconds / part.held_seconds, part.held_seconds});
      if (part.known_seconds > 0)
        shares.push_back(
            {std::min(100.0, 100 * part.used_seconds / part.held_seconds), part.held_seconds});
    }
    sum.memory_p95_bytes = p95_of(std::move(memory));
    sum.utilization_p95_percent = p95_of(std::move(shares));
    sum.devices = static_cast<int>(devices.size());
    sum.unused_devices =
        static_cast<int>(std::count_if(devices.begin(), devices.end(), [](const auto& one) {
          const Usage& usage = one.second;
          return usage.known_seconds > 0 && usage.idle_seconds >= usage.known_seconds &&
                 usage.known_seconds >= 0.9 * usage.held_seconds;
        }));
    return sum;
  }
};

}  // namespace

std::string next_options(const UsageSum& sum) {
  constexpr double kLeastSeconds = 300, kRoom = 1.2;
  const Usage& usage = sum.usage;
  if (!usage.asked_memory_bytes || usage.held_seconds < kLeastSeconds) return "";
  if (sum.unused_devices > 0 && sum.unused_devices == sum.devices) return "--cpu";
  if (sum.unused_devices > 0) return fmt::format("--gpus {}", sum.devices - sum.unused_devices);
  if (!usage.peak_memory_bytes) return "";
  const double wanted = std::ceil(*usage.peak_memory_bytes * kRoom / kGiB) * kGiB;
  const std::string memory = fmt::format("--memory {:.0f}GiB", wanted / kGiB);
  const double asked = *usage.asked_memory_bytes;
  if (asked > 0) {
    const bool is_too_little = wanted > asked && *usage.peak_memory_bytes > 0.95 * asked;
    return wanted <= 0.75 * asked || is_too_little ? memory : "";
  }
  // A job that uses at least half of the device's memory or time should have the device alone.
  const bool may_share = usage.device_memory_bytes && wanted < *usage.device_memory_bytes / 2 &&
                         sum.utilization_p95_percent && *sum.utilization_p95_percent < 50;
  return may_share ? memory : "";
}

std::vector<UsageSum> usage_sums(const std::vector<UsageRow>& rows, const std::string& by,
                                 const std::function<bool(const UsageRow&)>& is_wanted) {
  std::map<std::string, Group> groups;
  for (const UsageRow& row : rows)
    if (is_wanted(row)) groups[group_of(row, by)].add(row);
  std::vector<UsageSum> sums;
  for (const auto& [name, group] : groups) {
    sums.push_back(group.sum(name));
    // Only a sum of a single job gives useful advice for the next job.
    if (by != "user" && group.jobs.size() == 1) sums.back().next = next_options(sums.back());
  }
  std::stable_sort(sums.begin(), sums.end(), [](const UsageSum& a, const UsageSum& b) {
    return a.usage.held_seconds > b.usage.held_seconds;
  });
  return sums;
}

}  // namespace berth::serve
