// What a process inherits from its parent besides files and variables: resource limits, nice value,
// CPU affinity and signal handling. A queued job gets those of the process that submitted it. Plain
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace berth::model {

inline constexpr std::uint64_t kNoLimit = UINT64_MAX;

struct Limit {
  int resource = 0;  // RLIMIT_CPU and so on
  std::uint64_t soft = kNoLimit, hard = kNoLimit;
};

struct Limits {
  // a resource that is not listed keeps the limit of the parent process
  std::vector<Limit> resources;
  std::optional<int> nice;
  std::optional<int> oom_score_adj = {};  // proc(5)
  std::vector<int> cpus = {};  // CPU affinity (sched_setaffinity(2)), ascending; empty if unknown
  std::optional<std::uint64_t> blocked = {}, ignored = {};  // signals as bits: bit N-1 is signal N
  bool no_new_privileges = false;                           // prctl(2)
};

/// The name of a resource limit: "nofile" for RLIMIT_NOFILE; "" if unknown.
[[nodiscard]] std::string_view limit_name(int resource);
/// The resource limit with this name; nullopt if there is none.
[[nodiscard]] std::optional<int> limit_of(std::string_view name);

/// `told`, with missing values added from `rest`.
[[nodiscard]] Limits filled(Limits told, const Limits& rest);
/// `told`, reduced so that no limit, nice value, affinity or OOM score allows more than `most`
/// does.
[[nodiscard]] Limits within(Limits told, const Limits& most);

}  // namespace berth::model
