// How much users, jobs and programs held and used, compared with what they requested. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watch/history.hpp"

namespace berth::serve {

struct UsageSum {
  std::string name;  // name of the user, job or program
  watch::Usage usage;
  /// The value below which memory and utilization stayed for 95 % of the time on each device.
  /// Computed from means, weighted by time: means of minutes, or of hours if older than a week.
  /// nullopt: not known.
  std::optional<double> memory_p95_bytes, utilization_p95_percent;
  int devices = 0;         // devices that it held or used
  int unused_devices = 0;  // devices that it held but is known never to have used
  std::string next;        // options for the next time: "--memory 8GiB"; "": the same, or unknown
};

/// Adds up the wanted rows by "user", "job" or "command"; the group that held devices longest is
/// first.
[[nodiscard]] std::vector<UsageSum> usage_sums(
    const std::vector<watch::UsageRow>& rows, const std::string& by,
    const std::function<bool(const watch::UsageRow&)>& is_wanted);

/// The options of `berth run` that would have sufficed; "": the same as before, or not known. There
/// is no advice for jobs of less than a few minutes.
[[nodiscard]] std::string next_options(const UsageSum& sum);

}  // namespace berth::serve
