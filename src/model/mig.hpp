// MIG partitions that root's broker makes ([mig] in berth.toml): what a GPU offers and has, and the
// record of a partition that Berth made. A partition is a GPU instance with one compute instance.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace berth::model {

/// Memory slices of a GPU.
struct MigPlacement {
  std::uint32_t start = 0, size = 0;
  bool operator==(const MigPlacement&) const = default;
};

/// A kind of GPU instance that a GPU offers.
struct MigProfile {
  std::uint32_t id = 0;  // the driver's
  std::string name;      // "MIG 1g.10gb"
  std::uint32_t slices = 0;
  std::uint64_t memory_bytes = 0;
  std::vector<MigPlacement> places;  // all positions that it can have on the GPU, free or not
};

/// A GPU instance that exists.
struct MigInstance {
  std::uint32_t id = 0, profile = 0;
  MigPlacement place;
  std::vector<std::uint32_t> computes;  // the ids of its compute instances
};

/// A GPU with MIG enabled.
struct MigCard {
  std::string uuid;
  std::vector<MigProfile> profiles;
  std::vector<MigInstance> instances;
};

/// How far the broker is with making or removing a partition. The journal has each step before it
/// begins, so after a crash it is unknown whether the instance of that step exists.
enum class MigStep : unsigned char {
  kMakeInstance,   // the GPU instance may exist
  kMakeCompute,    // the GPU instance exists; its compute instance may exist
  kReady,          // the job has the partition
  kRemoveCompute,  // the compute instance may be gone
  kRemoveInstance  // the compute instance is gone; the GPU instance may be gone
};

/// A partition that Berth made for a job, is making, or is removing.
struct MadePartition {
  std::uint64_t job = 0;
  std::string card;  // the GPU's uuid
  std::uint32_t profile = 0;
  std::string name;  // of the profile
  std::uint64_t memory_bytes = 0;
  MigPlacement place;
  MigStep step = MigStep::kMakeInstance;
  std::optional<std::uint32_t> instance, compute;
  std::string uuid;  // "" before kReady
};

}  // namespace berth::model
