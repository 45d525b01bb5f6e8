#include "policy/container.hpp"

#include <algorithm>
#include <array>

#include "base/text_parts.hpp"

namespace berth::policy {
namespace {

using model::Device;
using model::Setting;
using model::Vendor;

std::vector<const Device*> given_devices(const model::Placement& placement,
                                         const model::Snapshot& snapshot) {
  std::vector<const Device*> out;
  for (const int index : placement.devices)
    for (const Device& device : snapshot.devices)
      if (device.index == index) out.push_back(&device);
  return out;
}

const Setting* setting(const model::Environment& environment, std::string_view name) {
  for (const Setting& one : environment.settings)
    if (one.name == name && one.action != Setting::Action::kUnset) return &one;
  return nullptr;
}

/// Adds the device nodes of AMD GPUs: /dev/kfd, which all of them share, and one render node per
/// GPU. If the number of a device is unknown, adds all nodes.
void add_nodes(std::vector<std::string>& words, const std::vector<const Device*>& devices) {
  const auto add = [&](const std::string& node) {
    if (std::find(words.begin(), words.end(), node) != words.end()) return;
    words.emplace_back("--device");
    words.push_back(node);
  };
  for (const Device* device : devices) {
    if (device->vendor == Vendor::kAmd) add("/dev/kfd");
    if (device->vendor == Vendor::kAmd || device->vendor == Vendor::kIntel)
      add(device->minor_number ? "/dev/dri/renderD" + std::to_string(*device->minor_number)
                               : "/dev/dri");
    if (device->vendor == Vendor::kGoogle)
      add("/dev/accel" +
          std::to_string(device->minor_number.value_or(device->vendor_index.value_or(0))));
  }
}

}  // namespace

bool selects_devices(const std::string& name) {
  static constexpr std::array<std::string_view, 9> kNames{
      "CUDA_VISIBLE_DEVICES",          "CUDA_DEVICE_ORDER",  "ROCR_VISIBLE_DEVICES",
      "HIP_VISIBLE_DEVICES",           "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK",
      "ZE_ENABLE_PCI_ID_DEVICE_ORDER", "TPU_VISIBLE_CHIPS",  "ONEAPI_DEVICE_SELECTOR"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::vector<std::string> container_words(const model::Environment& environment,
                                         const model::Placement& placement,
                                         const model::Snapshot& snapshot, ContainerTool tool) {
  std::vector<std::string> words;
  const auto devices = given_devices(placement, snapshot);
  const Setting* cuda = setting(environment, "CUDA_VISIBLE_DEVICES");
  const bool nvidia = std::any_of(devices.begin(), devices.end(),
                                  [](const Device* d) { return d->vendor == Vendor::kNvidia; });
  if (nvidia && cuda != nullptr && tool == ContainerTool::kDocker) {
    // Docker parses the value as CSV, and a comma starts a new field. So quote the list of devices.
    words = {"--gpus", "\"device=" + cuda->value + "\""};
  } else if (nvidia && cuda != nullptr) {
    for (const std::string_view one : split(cuda->value, ','))
      words.insert(words.end(), {"--device", "nvidia.com/gpu=" + std::string(one)});
  }
  add_nodes(words, devices);
  if (!environment.cpus.empty()) words.insert(words.end(), {"--cpuset-cpus", environment.cpus});
  for (const Setting& one : environment.settings) {
    const bool hides = devices.empty() && selects_devices(one.name);
    if (one.action == Setting::Action::kUnset || (selects_devices(one.name) && !hides)) continue;
    words.insert(words.end(), {"-e", one.name + "=" + one.value});
  }
  // NVIDIA's images set NVIDIA_VISIBLE_DEVICES=all. If NVIDIA's runtime is the default, it would
  // then add all GPUs. "void" prevents that.
  if (devices.empty()) words.insert(words.end(), {"-e", "NVIDIA_VISIBLE_DEVICES=void"});
  return words;
}

}  // namespace berth::policy
