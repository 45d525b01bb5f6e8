// `GET /v1/history` and `GET /v1/usage`: read the history file, in the caller's thread. A month of
// eight GPUs takes a tenth of a second, so the daemon calls this outside its loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "serve/server.hpp"
#include "serve/watch_json.hpp"

namespace berth::serve {

/// The period and the step that a query such as `?since=24h&step=5m` means at this time. Without a
/// step there are about 300 points, and never more than 1500. Fails with kInvalidArgument (E0919,
/// or E0101 for a duration).
[[nodiscard]] Result<Period> period_of(const std::map<std::string, std::string>& query,
                                       std::int64_t now);

/// Query keys: since, step, device (a list).
[[nodiscard]] Reply history_reply(const std::string& file, const Call& call, std::int64_t now);
/// Query keys: since, by. `only`: the caller sees the jobs and commands of this user only.
[[nodiscard]] Reply usage_reply(const std::string& file, const Call& call, std::int64_t now,
                                const std::optional<std::string>& only);

}  // namespace berth::serve
