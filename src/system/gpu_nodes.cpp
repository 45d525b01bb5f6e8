// Sources: kernel Documentation/admin-guide/devices.txt (the majors 195 and 226 are fixed, others
// are in /proc/devices); NVIDIA's MIG user guide, "Device nodes and capabilities", for
// /proc/driver/nvidia/capabilities, where the number of a GPU is the N of /dev/nvidiaN.
#include "system/gpu_nodes.hpp"

#include <algorithm>
#include <string>

#include "system/cgroup.hpp"

namespace berth::system {
namespace {

using model::NodeNumber;
using model::Vendor;

constexpr std::uint32_t kNvidiaMajor = 195;
constexpr std::uint32_t kNvidiaControl = 255, kNvidiaModeset = 254;
constexpr std::uint32_t kDrmMajor = 226;

std::vector<NodeNumber> drm_nodes(const std::string& sys, const std::string& pci_address) {
  std::vector<NodeNumber> nodes;
  if (pci_address.empty()) return nodes;
  for (const std::string& name : list_folder(sys + "/bus/pci/devices/" + pci_address + "/drm"))
    for (const std::string_view prefix : {"card", "renderD"}) {
      if (!name.starts_with(prefix)) continue;
      const auto minor = to_number(std::string_view(name).substr(prefix.size()));
      if (minor && *minor >= 0 && *minor < (1 << 20))
        nodes.push_back({kDrmMajor, static_cast<std::uint32_t>(*minor)});
    }
  return nodes;
}

std::optional<NodeNumber> capability(const std::string& folder, std::uint32_t major) {
  const auto text = slurp(folder + "/access", 4096);
  const auto minor = text ? stat_value(*text, "DeviceFileMinor") : std::nullopt;
  if (!minor) return std::nullopt;
  return NodeNumber{major, static_cast<std::uint32_t>(*minor)};
}

std::vector<model::PartitionNodes> partition_nodes(const std::string& proc,
                                                   const model::Device& device,
                                                   std::optional<std::uint32_t> major) {
  std::vector<model::PartitionNodes> all;
  for (const model::Partition& one : device.partitions) {
    model::PartitionNodes& nodes = all.emplace_back();
    nodes.uuid = one.uuid;
    if (!major) continue;  // without nodes for partitions, the node of the whole device is enough
    nodes.known = one.gpu_instance && one.compute_instance;
    if (!nodes.known) continue;
    const std::string instance = proc + "/driver/nvidia/capabilities/gpu" +
                                 std::to_string(*device.minor_number) + "/mig/gi" +
                                 std::to_string(*one.gpu_instance);
    for (const std::string& folder :
         {instance, instance + "/ci" + std::to_string(*one.compute_instance)}) {
      const auto node = capability(folder, *major);
      nodes.known = nodes.known && node;
      if (node) nodes.nodes.push_back(*node);
    }
  }
  return all;
}

}  // namespace

std::optional<std::uint32_t> character_major(std::string_view proc_devices, std::string_view name) {
  for (const std::string_view line : split(proc_devices, '\n')) {
    if (line.starts_with("Block")) break;
    const std::string_view row = trim(line);
    const auto blank = row.find(' ');
    if (blank == std::string_view::npos || row.substr(blank + 1) != name) continue;
    const auto number = to_number(row.substr(0, blank));
    if (number && *number > 0 && *number < 4096) return static_cast<std::uint32_t>(*number);
  }
  return std::nullopt;
}

model::GpuNodes gpu_nodes(const Roots& roots, const std::vector<model::Device>& devices) {
  const std::string kinds = slurp(roots.proc + "/devices", 1 << 16).value_or("");
  const auto capabilities = character_major(kinds, "nvidia-caps");
  model::GpuNodes all;
  all.majors = {kNvidiaMajor};
  all.control = {{Vendor::kNvidia, kNvidiaMajor, kNvidiaControl},
                 {Vendor::kNvidia, kNvidiaMajor, kNvidiaModeset}};
  if (const auto major = character_major(kinds, "nvidia-uvm"))
    all.control.push_back({Vendor::kNvidia, *major});
  if (const auto major = character_major(kinds, "kfd"))
    all.control.push_back({Vendor::kAmd, *major});
  if (capabilities) all.majors.push_back(*capabilities);
  for (const model::Device& device : devices) {
    if (device.kind != model::DeviceKind::kGpu || !device.managed) continue;
    model::DeviceNodes nodes{
        device.index, device.vendor, drm_nodes(roots.sys, device.pci_address), {}};
    if (device.vendor == Vendor::kNvidia) {
      if (!device.minor_number) continue;
      nodes.nodes.insert(nodes.nodes.begin(), {kNvidiaMajor, *device.minor_number});
      nodes.partitions = partition_nodes(roots.proc, device, capabilities);
    }
    if (!nodes.nodes.empty()) all.devices.push_back(std::move(nodes));
  }
  return all;
}

}  // namespace berth::system
