// How GPU memory can be managed. cudaMalloc works everywhere; virtual memory ranges and memory
// pools do not work on all kinds of GPUs.
#pragma once

#include <string>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

enum class MemoryKind : unsigned char { kOrdinary, kVgpu, kJetson, kWslWorkstation };

struct ManagedMemory {
  MemoryKind kind = MemoryKind::kOrdinary;
  std::string what;  // "NVIDIA A40-48C", "a Jetson"
};
/// kOrdinary unless a limitation is known.
[[nodiscard]] ManagedMemory managed_memory(Examination& look);

}  // namespace berth::doctor
