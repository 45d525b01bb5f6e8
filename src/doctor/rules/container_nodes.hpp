// Parts of rules CTR04 and CTR27, for a Kubernetes node. Its container engine must be configured
// for NVIDIA's runtime, and its kubelet needs a device plugin.
#pragma once

#include <string>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// Checks whether the node's container engine is configured for NVIDIA's runtime, and whether pods
/// use this runtime by default.
void runtimes_of_node(Examination& look);

/// Whether one of the sockets in the kubelet's plugin folder is that of a GPU device plugin:
/// NVIDIA's, a cloud provider's, or one that shares GPUs.
[[nodiscard]] bool has_gpu_plugin(const std::vector<std::string>& sockets);

/// The command that installs NVIDIA's device plugin with helm; `more` has additional arguments.
[[nodiscard]] std::string install_device_plugin(const std::string& more = "");

}  // namespace berth::doctor
