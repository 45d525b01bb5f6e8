// What the kernel allows a process (setrlimit(2)), and how it stands among others (nice(2)): a
// queued job has what its submitter had. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace berth::model {

inline constexpr std::uint64_t kNoLimit = UINT64_MAX;

struct Limit {
  int resource = 0;  // RLIMIT_CPU …
  std::uint64_t soft = kNoLimit, hard = kNoLimit;
};

struct Limits {
  std::vector<Limit> resources;  // what is not there is as whoever starts it has it
  std::optional<int> nice;
};

/// "nofile" for RLIMIT_NOFILE; "" where it is none.
[[nodiscard]] std::string_view limit_name(int resource);
/// The resource of that name; nullopt where there is none.
[[nodiscard]] std::optional<int> limit_of(std::string_view name);

/// `told`, and where it says nothing, `rest`.
[[nodiscard]] Limits filled(Limits told, const Limits& rest);
/// `told` with nothing above the hard limits of `most`, nor nicer to itself than that.
[[nodiscard]] Limits within(Limits told, const Limits& most);

}  // namespace berth::model
