// `berth k8s lend` and `reclaim`.
#pragma once

#include <string>

#include "base/result.hpp"
#include "cli/verb.hpp"

namespace berth::cli {

inline constexpr const char* kKubeState = "/var/lib/berth/kubernetes";

/// Runs `lend` or `reclaim`, as the word says, with checked options. Fails with E1030, E1037,
/// E1014, E1016, E1081 and E1082.
[[nodiscard]] Result<int> k8s_lend(const Context& context, const std::string& word);
/// The path of `berth-k8s`, beside this program. Fails with kUnsupported (E1030).
[[nodiscard]] Result<std::string> k8s_program();

}  // namespace berth::cli
