// Calls of NVIDIA's driver that list, make and remove MIG partitions. They need root. Each function
// makes one change at most, so that the caller can write to its journal before each change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/device.hpp"
#include "model/mig.hpp"

namespace berth::inventory {

/// The first driver version that reports the names of MIG profiles.
inline constexpr int kMigProfileDriver = 510;

/// Returns the GPUs with MIG enabled, with their profiles and instances. Fails with kUnavailable
/// (E1064).
[[nodiscard]] Result<std::vector<model::MigCard>> read_mig_cards(const std::string& library);

/// Makes a GPU instance. Returns its id. Fails with kUnavailable (E1064).
[[nodiscard]] Result<std::uint32_t> make_gpu_instance(const std::string& library,
                                                      const std::string& card,
                                                      std::uint32_t profile,
                                                      const model::MigPlacement& place);
/// Makes a compute instance that takes all of a GPU instance. Returns the partition that programs
/// can use then. Fails with kUnavailable (E1064).
[[nodiscard]] Result<model::Partition> make_compute_instance(const std::string& library,
                                                             const std::string& card,
                                                             std::uint32_t instance);
/// Remove an instance. Both fail with kUnavailable (E1065), for example while a process uses the
/// instance.
[[nodiscard]] Status remove_compute_instance(const std::string& library, const std::string& card,
                                             std::uint32_t instance, std::uint32_t compute);
[[nodiscard]] Status remove_gpu_instance(const std::string& library, const std::string& card,
                                         std::uint32_t instance);

}  // namespace berth::inventory
