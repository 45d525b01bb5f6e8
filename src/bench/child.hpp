// Runs a benchmark case in a forked child with a deadline. A library that hangs, crashes or prints
// costs one row of the report.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "bench/case.hpp"

namespace berth::bench {

/// Fails with the case's own error, or with kUnavailable (E1050: not finished at the deadline, and
/// ended; E1051: it crashed). Call it while the process has one thread.
[[nodiscard]] Result<Measured> run_in_child(const Case& one, const Target& target,
                                            const Effort& effort,
                                            std::chrono::milliseconds deadline);

/// The child's answer on the pipe.
[[nodiscard]] std::string encode(const Result<Measured>& answer);
/// nullopt if no child of ours would write these bytes.
[[nodiscard]] std::optional<Result<Measured>> decode(std::string_view bytes);

}  // namespace berth::bench
