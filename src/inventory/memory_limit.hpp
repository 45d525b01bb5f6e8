// Limits of a control group's memory on GPUs, enforced by NVIDIA's driver (615 and newer). The
// driver is called in a forked child, because a call can hang or crash.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/snapshot.hpp"

namespace berth::inventory {

struct MemoryLimit {
  std::string uuid;  // uuid of a whole GPU; the driver cannot limit MIG partitions
  std::uint64_t bytes = 0;
};

/// The first driver version that can limit the memory of a control group.
inline constexpr int kMemoryLimitDriver = 615;
[[nodiscard]] bool can_limit_memory(const model::Driver& driver);

/// Sets the limits of a group. The driver allows this only to root. The limits end when the group
/// is removed. Fails with kUnavailable (E1067).
[[nodiscard]] Status set_memory_limits(const std::string& library, const std::string& group,
                                       const std::vector<MemoryLimit>& limits);
/// Asks the driver whether the group has exactly these limits. Every user may call it. Fails with
/// kUnavailable (E1067).
[[nodiscard]] Status check_memory_limits(const std::string& library, const std::string& group,
                                         const std::vector<MemoryLimit>& limits);

}  // namespace berth::inventory
