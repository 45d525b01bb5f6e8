// Counters of this process's control group: processes that the kernel killed for lack of memory,
// and periods in which a CPU quota stopped the group.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace berth::run {

/// How many processes the kernel has killed for lack of memory; 0 if the kernel does not count
/// them.
[[nodiscard]] std::uint64_t oom_kills();

/// The kernel renews the CPU quota in each period, usually of 0.1 s.
struct QuotaPeriods {
  std::uint64_t all = 0;      // periods in which a process of the group could run
  std::uint64_t stopped = 0;  // periods in which the quota was used up
};

[[nodiscard]] QuotaPeriods parse_quota_periods(std::string_view cpu_stat);
/// The counts of this process's group and its visible ancestors, by folder.
[[nodiscard]] std::map<std::string, QuotaPeriods> quota_periods();
/// The fraction of the periods between `before` and `after` in which a quota stopped the group. If
/// ancestors have quotas, too, the largest fraction. 0 without a quota.
[[nodiscard]] double stopped_part(const std::map<std::string, QuotaPeriods>& before,
                                  const std::map<std::string, QuotaPeriods>& after);

}  // namespace berth::run
