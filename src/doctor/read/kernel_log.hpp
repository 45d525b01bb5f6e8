// Reads the kernel's log, as far as permitted.
#pragma once

#include <string>

#include "doctor/facts/fact.hpp"

namespace berth::doctor {

/// At most the newest 4 MiB, one message per line, without priorities.
[[nodiscard]] Fact<std::string> read_kernel_log();

}  // namespace berth::doctor
