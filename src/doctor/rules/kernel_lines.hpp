// Meanings of lines in the kernel log and in logs of module builds (data/kernel_lines.toml).
#pragma once

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// If a log shows why NVIDIA's module could not be built for the running kernel, adds the reason to
/// the title and the evidence of `finding`. Also inserts the matching fix as the first fix.
void add_build_failure(Examination& look, model::Finding& finding);

}  // namespace berth::doctor
