#include "inventory/drm_processes.hpp"

#include "base/text.hpp"

namespace berth::inventory {

namespace {

using model::Device;
using system::DrmClient;

bool is_client_of(const DrmClient& client, const Device& device) {
  // NVIDIA's driver has DRM nodes too, but its own process list is more complete.
  return (device.vendor == model::Vendor::kAmd || device.vendor == model::Vendor::kIntel) &&
         !client.pci_address.empty() && client.pci_address == device.pci_address;
}

/// Returns how much of the device's own memory the client uses. If the device has no own memory,
/// returns how much host memory the client uses.
std::optional<std::uint64_t> memory_of(const DrmClient& client, const Device& device) {
  if (!device.memory_unified) return client.device_bytes;
  if (!client.device_bytes || !client.host_bytes)
    return client.device_bytes ? client.device_bytes : client.host_bytes;
  return *client.device_bytes + *client.host_bytes;
}

model::DeviceProcess row_of(const DrmClient& client, const Device& device, int position) {
  model::DeviceProcess row;
  row.device = position;
  row.pid = client.pid;
  row.kind.compute = client.compute;
  row.kind.graphics = client.graphics;
  // Kernels before 5.19 (amdgpu) and 6.8 (i915, xe) report no sizes.
  row.memory_bytes = model::Absence::kNotSupported;
  if (const auto memory = memory_of(client, device)) row.memory_bytes = *memory;
  row.sm_percent = model::Absence::kNeedsTwoReadings;
  row.encoder_percent = row.decoder_percent = model::Absence::kNeedsTwoReadings;
  return row;
}

}  // namespace

void add_drm_processes(const system::DrmSearch& search, bool everybody,
                       std::vector<Device>& devices, std::vector<model::DeviceProcess>& processes) {
  for (std::size_t position = 0; position < devices.size(); ++position) {
    Device& device = devices[position];
    if (device.vendor != model::Vendor::kAmd && device.vendor != model::Vendor::kIntel) continue;
    std::uint64_t sum = 0;
    bool all_told = true;
    for (const DrmClient& client : search.clients) {
      if (!is_client_of(client, device)) continue;
      processes.push_back(row_of(client, device, static_cast<int>(position)));
      const auto& memory = processes.back().memory_bytes;
      all_told = all_told && memory;
      sum += memory.value_or(0);
    }
    const auto& used = device.readings.memory_used_bytes;
    if (device.memory_unified || used || used.why != model::Absence::kNotSupported) continue;
    if (sum > device.readings.memory_total_bytes.value_or(sum)) continue;
    if (!search.finished) {
      device.readings.memory_used_bytes = model::Absence::kNoAnswer;
    } else if (!everybody) {
      // Processes of other users may use the device, but they cannot be seen. Mark memory and
      // processes as unknown, so that the device does not look unused.
      device.readings.memory_used_bytes = model::Absence::kNoPermission;
      device.processes_unknown = model::Absence::kNoPermission;
      device.note = text("only root sees which processes of other users use the GPU");
    } else if (all_told) {
      device.readings.memory_used_bytes = sum;
    }
  }
}

}  // namespace berth::inventory
