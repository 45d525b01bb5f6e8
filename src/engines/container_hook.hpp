// The lease of a container that people start without Berth (`docker run --gpus all …`): which GPUs
// its runtime configuration gives it, and the settings with which the engines call Berth. Pure;
// all input is JSON of other programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/job.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

/// What a runtime writes to a hook's standard input.
struct HookState {
  std::int64_t pid = 0;
  std::string id, bundle;
};
/// Fails with kInvalidArgument (E1105).
[[nodiscard]] Result<HookState> parse_hook_state(std::string_view json);

struct GivenGpus {
  bool all = false;
  std::vector<std::uint32_t> minors;  // minor numbers of the device files /dev/nvidiaN
  std::vector<std::string> names;     // items in NVIDIA_VISIBLE_DEVICES: indices and uuids
  std::uint64_t job = 0;              // the job to which the container claims to belong; 0: none
  std::string token;                  // the token that proves it; "": it has none

  [[nodiscard]] bool any() const { return all || !minors.empty() || !names.empty(); }
};
/// Reads a container's config.json. NVIDIA_VISIBLE_DEVICES counts only if NVIDIA's hook or runtime
/// will read it, because images set it, too. Fails with kInvalidArgument (E1105).
[[nodiscard]] Result<GivenGpus> gpus_given(std::string_view config, bool nvidia_runtime);
/// The values for --devices; unknown GPUs are left out.
[[nodiscard]] std::vector<std::string> devices_of(const GivenGpus& given,
                                                  const model::Snapshot& snapshot);
/// Whether the job runs and has a lease on all these devices.
[[nodiscard]] bool has_lease_on(const model::Job& job, const std::vector<std::string>& devices);
/// Whether a process with this environment (entries end with NUL) started the container: it has the
/// container's token.
[[nodiscard]] bool has_token(std::string_view environment, const GivenGpus& given);

/// How Berth is called before a container starts.
struct HookCall {
  std::string program;                 // path of `berth`
  std::vector<std::string> variables;  // NAME=value
};
/// The file that podman reads from its folder of hooks.
[[nodiscard]] std::string podman_hook(const HookCall& call);
/// config.json with the hook added after the existing hooks. Fails with kInvalidArgument (E1105).
[[nodiscard]] Result<std::string> with_hook(std::string_view config, const HookCall& call,
                                            bool nvidia_runtime);

/// Docker's daemon.json with Berth as the default runtime, which then calls the previous default.
/// "" means that there is no file. Fails with kInvalidArgument (E1106) if it is not a JSON object.
[[nodiscard]] Result<std::string> with_runtime(std::string_view daemon, const std::string& program);
/// The daemon.json without Berth's runtime; "" if the file is not needed any more.
[[nodiscard]] Result<std::string> without_runtime(std::string_view daemon);

}  // namespace berth::engines
