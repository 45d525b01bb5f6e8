// The MIG partitions that programs of a simulation made (BERTH_SIM_DIR/mig), on devices whose
// machine file has `mig_profiles`. Partitions that the machine file lists are in the state instead.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "wire/robust_lock.hpp"
#include "wire/sim_state.hpp"

namespace berth::wire::sim {

inline constexpr std::uint64_t kMigMagic = 0x47494d4854524542;  // "BERTHMIG"
inline constexpr std::uint32_t kMigVersion = 1, kMigInstances = 8;

/// A GPU instance. Set `used` last when the instance is made, and clear it first when the instance
/// is removed.
struct MigInstance {
  std::uint32_t used, id;
  std::uint32_t profile;  // its position among the profiles of the device
  std::uint32_t start;    // its first memory slice
  std::uint32_t compute;  // 1: it has a compute instance, which takes all of it
  std::uint32_t unused;
};

struct MigDevice {
  MigInstance instance[kMigInstances];
};

struct MigShared {
  std::uint64_t magic;
  std::uint32_t version, devices;
  alignas(64) unsigned char lock[64];  // a robust pthread_mutex_t
  MigDevice device[kMaxDevices];
};
static_assert(offsetof(MigShared, lock) == 64 && offsetof(MigShared, device) == 128);
static_assert(sizeof(pthread_mutex_t) <= 64);

inline pthread_mutex_t& lock_of(MigShared& shared) {
  return *reinterpret_cast<pthread_mutex_t*>(shared.lock);
}

/// Called once, by `berth sim`, on zeroed memory.
inline bool begin_mig(MigShared& shared, std::uint32_t devices) {
  const bool made = begin_lock(lock_of(shared));
  shared.devices = devices;
  shared.version = kMigVersion;
  shared.magic = kMigMagic;
  return made;
}

}  // namespace berth::wire::sim
