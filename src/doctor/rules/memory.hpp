// How programs can allocate GPU memory on this machine. cudaMalloc works on all GPUs, virtual
// memory ranges and memory pools only on some kinds.
#pragma once

#include <string>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

enum class MemoryKind : unsigned char { kOrdinary, kVgpu, kJetson, kWslWorkstation };

struct ManagedMemory {
  MemoryKind kind = MemoryKind::kOrdinary;
  std::string what;  // the kind of GPU: "NVIDIA A40-48C", "a Jetson"
};
/// Returns how managed memory works on this machine's GPU; kOrdinary if no limitation is known.
[[nodiscard]] ManagedMemory managed_memory(Examination& look);

}  // namespace berth::doctor
