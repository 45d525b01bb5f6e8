// Part of rules CTR04 and CTR27: a Kubernetes node, whose container engine has to know NVIDIA's
// runtime, and whose kubelet a device plugin.
#pragma once

#include <string>
#include <vector>

#include "doctor/rule.hpp"

namespace berth::doctor {

/// Whether what starts the node's pods reads of NVIDIA's runtime, and who gets it.
void runtimes_of_node(Examination& look);

/// Whether one of the sockets beside the kubelet's is a device plugin's for GPUs: NVIDIA's, a
/// cloud's, or one that shares them out.
[[nodiscard]] bool has_gpu_plugin(const std::vector<std::string>& sockets);

/// Installs NVIDIA's device plugin; `more`: further arguments of helm's.
[[nodiscard]] std::string install_device_plugin(const std::string& more = "");

}  // namespace berth::doctor
