#include "inventory/unified_memory.hpp"

#include "base/text.hpp"

namespace berth::inventory {

void share_host_memory(model::Device& device, const model::Device& cpu) {
  if (!device.memory_unified || device.kind == model::DeviceKind::kCpu) return;
  // A driver's total of its own (a carve-out of an integrated GPU) is left alone, and so is why a
  // silent device has none.
  const auto& total = device.readings.memory_total_bytes;
  if (total || total.why != model::Absence::kNotSupported) return;
  device.readings.memory_total_bytes = cpu.readings.memory_total_bytes;
  // What the host uses, not the sum of the device's processes: free memory is what the next program
  // asks for, and every other program takes of the same.
  device.readings.memory_used_bytes = cpu.readings.memory_used_bytes;
  if (device.note.empty() && device.readings.memory_used_bytes)
    device.note = text("its memory is the host's, and what the host's programs use counts as used");
}

}  // namespace berth::inventory
