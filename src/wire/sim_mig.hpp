// The MIG partitions that programs in a simulation have made (BERTH_SIM_DIR/mig), on devices for
// which the machine file lists `mig_profiles`. Partitions in the machine file itself are in
// sim_state.hpp.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "wire/robust_lock.hpp"
#include "wire/sim_state.hpp"

namespace berth::wire::sim {

inline constexpr std::uint64_t kMigMagic = 0x47494d4854524542;  // "BERTHMIG"
inline constexpr std::uint32_t kMigVersion = 1, kMigInstances = 8;

/// A GPU instance. When it is made, `used` is set last; when it is removed, `used` is cleared
/// first.
struct MigInstance {
  std::uint32_t used, id;
  std::uint32_t profile;  // index of its profile among those of the device
  std::uint32_t start;    // the first memory slice that it occupies
  std::uint32_t compute;  // 1 if it has a compute instance, which takes all of it
  std::uint32_t unused;
};

struct MigDevice {
  MigInstance instance[kMigInstances];
};

struct MigShared {
  std::uint64_t magic;
  std::uint32_t version, devices;
  alignas(64) unsigned char lock[64];  // holds a robust pthread_mutex_t
  MigDevice device[kMaxDevices];
};
static_assert(offsetof(MigShared, lock) == 64 && offsetof(MigShared, device) == 128);
static_assert(sizeof(pthread_mutex_t) <= 64);

inline pthread_mutex_t& lock_of(MigShared& shared) {
  return *reinterpret_cast<pthread_mutex_t*>(shared.lock);
}

/// Initialises the table. `berth sim` calls it once, on zeroed memory.
inline bool begin_mig(MigShared& shared, std::uint32_t devices) {
  const bool made = begin_lock(lock_of(shared));
  shared.devices = devices;
  shared.version = kMigVersion;
  shared.magic = kMigMagic;
  return made;
}

}  // namespace berth::wire::sim
