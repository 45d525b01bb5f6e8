#include "inventory/unified_memory.hpp"

#include "base/text.hpp"

namespace berth::inventory {

void share_host_memory(model::Device& device, const model::Device& cpu) {
  if (!device.memory_unified || device.kind == model::DeviceKind::kCpu) return;
  // Keeps a total size that the driver reports (the memory reserved for an integrated GPU). For a
  // device that does not answer, keeps the reason for the missing total.
  const auto& total = device.readings.memory_total_bytes;
  if (total || total.why != model::Absence::kNotSupported) return;
  device.readings.memory_total_bytes = cpu.readings.memory_total_bytes;
  // Uses the used memory of the host instead of the sum over the device's processes, because all
  // programs share the host's free memory.
  device.readings.memory_used_bytes = cpu.readings.memory_used_bytes;
  if (device.note.empty() && device.readings.memory_used_bytes)
    device.note =
        text("this device shares the host's memory: memory that host programs use counts as used");
}

}  // namespace berth::inventory
