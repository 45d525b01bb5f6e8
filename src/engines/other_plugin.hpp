// Another program on a Kubernetes node that gives its NVIDIA GPUs to pods: NVIDIA's device plugin,
// which the GPU Operator installs and which owns nvidia.com/gpu, or NVIDIA's driver for claims.
// Neither knows which GPUs Berth has allocated. So while one of them runs, Berth allocates none.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engines/kube_devices.hpp"

namespace berth::engines {

/// KubeUnit::fault of a unit that another program may give to pods.
inline constexpr const char* kOtherPluginFault = "other-plugin";

/// Ends NVIDIA's device plugin on a node of the GPU Operator.
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

  /// A translated sentence for each of these programs whose socket accepts a connection now. A
  /// socket that a killed program left does not count.
  [[nodiscard]] std::vector<std::string> running() const;
  /// Marks all units as unhealthy while such a program runs.
  void apply(std::vector<KubeUnit>& units) const;

 private:
  std::string kubelet_, devices_;
  Part own_;
};

/// Marks as unhealthy the units that pods already have through another resource. `pods` maps the id
/// of a device ("GPU-1", "MIG-1", "GPU-1::3") to its pod ("default/train").
void mark_held_elsewhere(std::vector<KubeUnit>& units,
                         const std::map<std::string, std::string>& pods);

}  // namespace berth::engines
