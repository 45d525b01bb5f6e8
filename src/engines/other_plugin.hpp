// Another program on a Kubernetes node that gives NVIDIA GPUs to pods: NVIDIA's device plugin,
// which the GPU Operator installs and which owns nvidia.com/gpu, or NVIDIA's DRA driver. Neither
// knows which GPUs Berth has allocated. So while one of them runs, Berth allocates none.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engines/kube_devices.hpp"

namespace berth::engines {

/// KubeUnit::fault of all units while another program may give them to pods.
inline constexpr const char* kOtherPluginFault = "other-plugin";

/// The command that ends NVIDIA's device plugin on a node of the GPU Operator.
inline constexpr const char* kOtherPluginHint =
    "kubectl label node NODE nvidia.com/gpu.deploy.device-plugin=false --overwrite";

class OtherPlugins {
 public:
  enum class Part : unsigned char { kDevicePlugin, kDriver };
  /// `kubelet`: "/var/lib/kubelet". `devices`: the folder of device plugins in it. `own`: the part
  /// of Berth that uses this object. If it is the driver, Berth's own device plugin also counts as
  /// another program.
  OtherPlugins(std::string kubelet, std::string devices, Part own)
      : kubelet_(std::move(kubelet)), devices_(std::move(devices)), own_(own) {}

  /// Returns a translated sentence for each other plugin or driver whose socket accepts a
  /// connection now. The socket of a killed program does not count.
  [[nodiscard]] std::vector<std::string> running() const;
  /// Marks all units as unhealthy while another plugin or driver runs.
  void apply(std::vector<KubeUnit>& units) const;

 private:
  std::string kubelet_, devices_;
  Part own_;
};

/// Marks units as unhealthy if a pod already has them through another resource. `pods` maps the id
/// of a device ("GPU-1", "MIG-1", "GPU-1::3") to the pod that has it ("default/train").
void mark_held_elsewhere(std::vector<KubeUnit>& units,
                         const std::map<std::string, std::string>& pods);

}  // namespace berth::engines
