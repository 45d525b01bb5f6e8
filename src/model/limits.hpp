// What a process inherits from its parent besides files and variables: limits (setrlimit(2)), nice
// value, CPU affinity, signal dispositions. A queued job gets those of its submitter. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace berth::model {

inline constexpr std::uint64_t kNoLimit = UINT64_MAX;

struct Limit {
  int resource = 0;  // RLIMIT_CPU, …
  std::uint64_t soft = kNoLimit, hard = kNoLimit;
};

struct Limits {
  std::vector<Limit> resources;  // resources that are not listed are inherited from the parent
  std::optional<int> nice;
  std::optional<int> oom_score_adj = {};  // proc(5)
  std::vector<int> cpus = {};  // CPU affinity (sched_setaffinity(2)), ascending; empty: unknown
  std::optional<std::uint64_t> blocked = {}, ignored = {};  // signals as bits: bit N-1 is signal N
  bool no_new_privileges = false;                           // prctl(2)
};

/// "nofile" for RLIMIT_NOFILE; "" if unknown.
[[nodiscard]] std::string_view limit_name(int resource);
/// The resource with that name; nullopt if there is none.
[[nodiscard]] std::optional<int> limit_of(std::string_view name);

/// `told`, with its missing values taken from `rest`.
[[nodiscard]] Limits filled(Limits told, const Limits& rest);
/// `told`, reduced so that hard limits, nice value, affinity and OOM score do not exceed `most`.
[[nodiscard]] Limits within(Limits told, const Limits& most);

}  // namespace berth::model
