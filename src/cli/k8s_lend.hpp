// `berth k8s lend` and `reclaim`: move GPUs between Berth's queue and Kubernetes.
#pragma once

#include <string>

#include "base/result.hpp"
#include "cli/verb.hpp"

namespace berth::cli {

inline constexpr const char* kKubeState = "/var/lib/berth/kubernetes";

/// Runs `lend` or `reclaim`, whichever `word` is. The options were already checked. Fails with
/// E1030, E1037, E1014, E1016, E1081 and E1082.
[[nodiscard]] Result<int> k8s_lend(const Context& context, const std::string& word);
/// The path of `berth-k8s`, which is in the folder of this program. Fails with kUnsupported
/// (E1030).
[[nodiscard]] Result<std::string> k8s_program();

}  // namespace berth::cli
