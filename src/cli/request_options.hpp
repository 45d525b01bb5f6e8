// What `run` and `env` have in common: how a job says what it wants. One table and one reading of
// it, so that `berth env` prints what `berth run` with the same words sets.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>

#include "base/result.hpp"
#include "cli/verb.hpp"
#include "model/run.hpp"
#include "policy/environment.hpp"

namespace berth::cli {

inline constexpr std::array<Option, 8> kRequestOptions{{
    {"--gpus", "N", "N GPUs for this job alone; 0 or none: run on the CPU"},
    {"--cpu", nullptr, "run on the CPU, all GPUs hidden: the same as --gpus none"},
    {"--devices", "LIST", "exactly these: index (0, MIG 0:1), uuid or PCI address, comma separated",
     true},
    {"--memory", "SIZE", "that much free memory on a GPU that others may use too (8GiB)"},
    {"--share", "PART", "with --memory: that part of such a GPU's time, kept for the job (30%)"},
    {"--cpus", "N", "N cores, near the GPU where there is one"},
    {"--override", nullptr, "replace thread variables that are already set"},
    {"--quiet", nullptr, "less talk from frameworks: sets TF_CPP_MIN_LOG_LEVEL=1"},
}};

/// Two option tables as one, at compile time, for a row of the verb table.
template <std::size_t N, std::size_t M>
[[nodiscard]] constexpr std::array<Option, N + M> join(const std::array<Option, N>& first,
                                                       const std::array<Option, M>& second) {
  std::array<Option, N + M> all{};
  for (std::size_t i = 0; i < N; ++i) all[i] = first[i];
  for (std::size_t i = 0; i < M; ++i) all[N + i] = second[i];
  return all;
}

/// `environment`: of the caller, for the visibility it already sets. Fails with kInvalidArgument
/// (E0010, E0011, E0101, E0104).
[[nodiscard]] Result<model::Request> parse_request(
    const Arguments& arguments, const std::map<std::string, std::string>& environment);
[[nodiscard]] policy::EnvironmentOptions environment_options(const Arguments& arguments);

}  // namespace berth::cli
