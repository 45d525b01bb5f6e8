// Runs a benchmark case in a forked child with a deadline. If a library hangs or crashes, only one
// row of the report is lost.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "bench/case.hpp"

namespace berth::bench {

/// Runs the case. Calls `meanwhile` a few times a second while it runs. Fails with the case's own
/// error, or with kUnavailable (E1050: the child had not finished at the deadline and was killed;
/// E1051: the child crashed). Call this while the process has only one thread.
[[nodiscard]] Result<Measured> run_in_child(const Case& one, const Target& target,
                                            const Effort& effort,
                                            std::chrono::milliseconds deadline,
                                            const std::function<void()>& meanwhile = {});

/// Converts the child's result or error to the bytes that it writes to the pipe.
[[nodiscard]] std::string encode(const Result<Measured>& answer);
/// The reverse of encode(); nullopt if the bytes are malformed.
[[nodiscard]] std::optional<Result<Measured>> decode(std::string_view bytes);

}  // namespace berth::bench
