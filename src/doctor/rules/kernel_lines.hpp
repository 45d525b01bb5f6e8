// The meaning of lines in kernel logs and module build logs (data/kernel_lines.toml).
#pragma once

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// Adds why building NVIDIA's module for the running kernel failed, if the log shows it: to the
/// title and evidence, and as the first fix.
void add_build_failure(Examination& look, model::Finding& finding);

}  // namespace berth::doctor
