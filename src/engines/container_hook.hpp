// Leases for containers that people start without Berth (`docker run --gpus all …`). Finds the GPUs
// that the runtime configuration gives to the container, and makes the engine settings that call
// Berth. Pure; all input is JSON of other programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/job.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

/// What a container runtime writes to the standard input of a hook.
struct HookState {
  std::int64_t pid = 0;
  std::string id, bundle;
};
/// Parses the runtime's input. Fails with kInvalidArgument (E1105).
[[nodiscard]] Result<HookState> parse_hook_state(std::string_view json);

struct GivenGpus {
  bool all = false;
  std::vector<std::uint32_t> minors;  // minor numbers of the device files /dev/nvidiaN
  std::vector<std::string> names;     // items in NVIDIA_VISIBLE_DEVICES: indices and uuids
  std::uint64_t job = 0;              // id of the job that the container claims as its own; 0: none
  std::string token;  // the token that proves this claim; "": the container has no token

  [[nodiscard]] bool any() const { return all || !minors.empty() || !names.empty(); }
};
/// Reads a container's config.json. NVIDIA_VISIBLE_DEVICES counts only if NVIDIA's hook or runtime
/// will read it, because images set it, too. Fails with kInvalidArgument (E1105).
[[nodiscard]] Result<GivenGpus> gpus_given(std::string_view config, bool nvidia_runtime);
/// The values for --devices; unknown GPUs are left out.
[[nodiscard]] std::vector<std::string> devices_of(const GivenGpus& given,
                                                  const model::Snapshot& snapshot);
/// Whether the job is running and has a lease on all these devices.
[[nodiscard]] bool has_lease_on(const model::Job& job, const std::vector<std::string>& devices);
/// Whether the process with this environment started the container, because both have the same
/// token. Entries of `environment` end with NUL.
[[nodiscard]] bool has_token(std::string_view environment, const GivenGpus& given);

/// The command with which an engine calls Berth before a container starts.
struct HookCall {
  std::string program;                 // path of `berth`
  std::vector<std::string> variables;  // NAME=value
};
/// The file that podman reads from its folder of hooks.
[[nodiscard]] std::string podman_hook(const HookCall& call);
/// config.json with the hook added after the existing hooks. Fails with kInvalidArgument (E1105).
[[nodiscard]] Result<std::string> with_hook(std::string_view config, const HookCall& call,
                                            bool nvidia_runtime);

/// Docker's daemon.json, changed to use Berth as the default runtime. Berth then calls the previous
/// default runtime. If `daemon` is "", there was no file. Fails with kInvalidArgument (E1106) if it
/// is not a JSON object.
[[nodiscard]] Result<std::string> with_runtime(std::string_view daemon, const std::string& program);
/// The daemon.json without Berth's runtime; "" if nothing else was in the file, so it can be
/// removed.
[[nodiscard]] Result<std::string> without_runtime(std::string_view daemon);

}  // namespace berth::engines
