// Reads the kernel log, if this is permitted.
#pragma once

#include <string>

#include "doctor/facts/fact.hpp"

namespace berth::doctor {

/// The newest part of the log, at most 4 MiB, one message per line, without priorities.
[[nodiscard]] Fact<std::string> read_kernel_log();

}  // namespace berth::doctor
