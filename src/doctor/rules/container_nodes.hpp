// Part of rules CTR04 and CTR27: a Kubernetes node. Its container engine must know NVIDIA's
// runtime, and its kubelet needs a device plugin.
#pragma once

#include <string>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// Checks whether the node's container engine is configured to use NVIDIA's runtime, and which pods
/// get this runtime.
void runtimes_of_node(Examination& look);

/// Whether one of these sockets in the kubelet's plugin folder belongs to a GPU device plugin:
/// NVIDIA's, a cloud's, or one that shares GPUs.
[[nodiscard]] bool has_gpu_plugin(const std::vector<std::string>& sockets);

/// The command that installs NVIDIA's device plugin; `more` has additional helm arguments.
[[nodiscard]] std::string install_device_plugin(const std::string& more = "");

}  // namespace berth::doctor
