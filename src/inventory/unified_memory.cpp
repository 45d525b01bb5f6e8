#include "inventory/unified_memory.hpp"

#include "base/text.hpp"

namespace berth::inventory {

void share_host_memory(model::Device& device, const model::Device& cpu) {
  if (!device.memory_unified || device.kind == model::DeviceKind::kCpu) return;
  // If the driver reports a total (the memory reserved for an integrated GPU), keep it. If the
  // device does not answer, keep the reason why there is no total.
  const auto& total = device.readings.memory_total_bytes;
  if (total || total.why != model::Absence::kNotSupported) return;
  device.readings.memory_total_bytes = cpu.readings.memory_total_bytes;
  // All programs share the host's memory. So report the host's used memory, not the sum over the
  // device's processes.
  device.readings.memory_used_bytes = cpu.readings.memory_used_bytes;
  if (device.note.empty() && device.readings.memory_used_bytes)
    device.note =
        text("this device shares the host's memory: memory that host programs use counts as used");
}

}  // namespace berth::inventory
