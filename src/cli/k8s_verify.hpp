// `berth k8s verify`: a pod tries to break its quota, and this reports whether it held.
#pragma once

#include "cli/verb.hpp"

namespace berth::cli {

[[nodiscard]] Result<int> run_k8s_verify(const Context& context);

}  // namespace berth::cli
