// How memory of a GPU can be managed: by cudaMalloc everywhere; in parts of a virtual range, and
// out of pools, not on every kind.
#pragma once

#include <string>

#include "doctor/rule.hpp"

namespace berth::doctor {

enum class MemoryKind : unsigned char { kOrdinary, kVgpu, kJetson, kWslWorkstation };

struct ManagedMemory {
  MemoryKind kind = MemoryKind::kOrdinary;
  std::string what;  // "NVIDIA A40-48C", "a Jetson"
};
/// kOrdinary where nothing is known that speaks against it.
[[nodiscard]] ManagedMemory managed_memory(Examination& look);

}  // namespace berth::doctor
