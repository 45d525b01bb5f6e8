// The kernel's log, as far as it may be read.
#pragma once

#include <string>

#include "doctor/fact.hpp"

namespace berth::doctor {

/// The newest 4 MiB at most, a line each, without priorities.
[[nodiscard]] Fact<std::string> read_kernel_log();

}  // namespace berth::doctor
