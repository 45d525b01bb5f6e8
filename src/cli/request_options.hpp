// The options of `run` and `env` that describe what a job needs. Both verbs use this table and
// parser, so that `berth env` prints exactly what `berth run` sets.
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

inline constexpr std::array<Option, 13> kRequestOptions{{
    {"--gpus", "N|all|none",
     "N free GPUs for this job alone; all: all of them; 0 or none: the CPU"},
    {"--cpu", nullptr, "run on the CPU, all GPUs hidden: the same as --gpus none"},
    {"--devices", "LIST",
     "exactly these devices: index (0, MIG 0:1), uuid or PCI address, comma separated", true},
    {"--memory", "SIZE",
     "this much memory of a GPU that others may share; prefers a free GPU, then the least used"},
    {"--share", "PART",
     "with --memory: share of the GPU's time that is reserved for the job (30%)"},
    {"--cap", "PART", "at most this part of the GPU's time, even if no other job uses it"},
    {"--latency", nullptr, "the job's work on a shared GPU comes before the work of other jobs"},
    {"--best-effort", nullptr, "the job gets only the time that other jobs leave"},
    {"--slice", "TIME", "length of the job's turns on a shared GPU (100ms; default: 20ms)"},
    {"--turn", "TIME",
     "how long a turn of the job lasts (10m); a pause of up to a second does not end a turn"},
    {"--cpus", "N|LIST", "N cores, near the GPU if there is one; or a list of cores (0-3)"},
    {"--override", nullptr, "replace thread variables that are already set"},
    {"--quiet", nullptr, "fewer messages from frameworks: sets TF_CPP_MIN_LOG_LEVEL=1"},
}};

/// Joins two option tables at compile time into one for the verb table.
template <std::size_t N, std::size_t M>
[[nodiscard]] constexpr std::array<Option, N + M> join(const std::array<Option, N>& first,
                                                       const std::array<Option, M>& second) {
  std::array<Option, N + M> all{};
  for (std::size_t i = 0; i < N; ++i) all[i] = first[i];
  for (std::size_t i = 0; i < M; ++i) all[N + i] = second[i];
  return all;
}

/// Reads the options. `environment` holds the caller's variables, which may already limit the
/// visible devices. Fails with kInvalidArgument (E0010, E0011, E0101, E0104, E0963).
[[nodiscard]] Result<model::Request> parse_request(
    const Arguments& arguments, const std::map<std::string, std::string>& environment);
[[nodiscard]] policy::EnvironmentOptions environment_options(const Arguments& arguments);

}  // namespace berth::cli
