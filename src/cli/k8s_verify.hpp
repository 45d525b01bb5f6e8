// `berth k8s verify`: starts a pod that tries to exceed its quota, and reports whether the quota
// was enforced.
#pragma once

#include "cli/verb.hpp"

namespace berth::cli {

[[nodiscard]] Result<int> run_k8s_verify(const Context& context);

}  // namespace berth::cli
