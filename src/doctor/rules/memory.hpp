// How programs can manage GPU memory here. cudaMalloc works everywhere. Virtual memory ranges and
// memory pools do not work on all kinds of GPUs.
#pragma once

#include <string>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

enum class MemoryKind : unsigned char { kOrdinary, kVgpu, kJetson, kWslWorkstation };

struct ManagedMemory {
  MemoryKind kind = MemoryKind::kOrdinary;
  std::string what;  // the kind of GPU: "NVIDIA A40-48C", "a Jetson"
};
/// Returns kOrdinary unless a limitation is known.
[[nodiscard]] ManagedMemory managed_memory(Examination& look);

}  // namespace berth::doctor
