// Whether a job that ended is tried again, and after which pause (--retries, --backoff).
#pragma once

#include <chrono>

#include "model/tries.hpp"
#include "run/hang_action.hpp"

namespace berth::run {

/// Whether another try may succeed. An error in the program would occur again, so it is not
/// retried.
[[nodiscard]] bool is_worth_a_retry(model::TryClass kind, HangAction on_hang);

/// Whether the next try may need other devices or variables than the failed try. If so, the front
/// decides about the next try, because only the front can see the devices and take another lease.
[[nodiscard]] bool may_need_changes(model::TryClass kind);

/// The pause before try `number`, which is at least 2. It doubles each time, up to `most`, with a
/// random part, so that jobs that failed together do not restart together.
[[nodiscard]] std::chrono::milliseconds pause_before_try(int number,
                                                         std::chrono::milliseconds least,
                                                         std::chrono::milliseconds most);

}  // namespace berth::run
