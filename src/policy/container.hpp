// The arguments for `docker run` and `podman run` that give a container the devices of a placement.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

/// Docker's --gpus, or CDI names for docker 25 and podman.
enum class ContainerTool { kDocker, kCdi };

/// The arguments: --gpus '"device=0,1"' or --device nvidia.com/gpu=0, the device nodes of other
/// vendors, and -e for each variable that has the same meaning inside the container.
[[nodiscard]] std::vector<std::string> container_words(const model::Environment& environment,
                                                       const model::Placement& placement,
                                                       const model::Snapshot& snapshot,
                                                       ContainerTool tool);
/// Whether the variable selects devices by their numbers on the host. Inside the container, the
/// numbers differ. So the variable is passed to the container only if it hides all devices.
[[nodiscard]] bool selects_devices(const std::string& variable);

}  // namespace berth::policy
