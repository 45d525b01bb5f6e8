// What lines of kernels and of builds of their modules mean (data/kernel_lines.toml).
#pragma once

#include "doctor/rule.hpp"

namespace berth::doctor {

/// Why NVIDIA's module was not built for the running kernel, where the build's log tells: into the
/// title, the evidence, and as the first fix.
void add_build_failure(Examination& look, model::Finding& finding);

}  // namespace berth::doctor
