// MIG partitions that the system broker makes ([mig] in berth.toml): what a GPU offers, what it
// has, and the partitions that Berth made. A partition is a GPU instance with one compute instance.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace berth::model {

/// The position of a GPU instance: which memory slices of the GPU it occupies.
struct MigPlacement {
  std::uint32_t start = 0, size = 0;
  bool operator==(const MigPlacement&) const = default;
};

/// A kind of GPU instance that the GPU can have.
struct MigProfile {
  std::uint32_t id = 0;  // the driver's id for this profile
  std::string name;      // "MIG 1g.10gb"
  std::uint32_t slices = 0;
  std::uint64_t memory_bytes = 0;
  // all positions on the GPU where it can be made, even if they are occupied now
  std::vector<MigPlacement> places;
};

/// An existing GPU instance.
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

/// How far the broker has got with making or removing a partition. Each step is written to the
/// journal before it begins. So after a crash, it is unknown whether the instance of the recorded
/// step exists.
enum class MigStep : unsigned char {
  kMakeInstance,   // the GPU instance may exist
  kMakeCompute,    // the GPU instance exists; its compute instance may exist
  kReady,          // the job has the partition
  kRemoveCompute,  // the compute instance may be gone
  kRemoveInstance  // the compute instance is gone; the GPU instance may be gone
};

/// A partition for a job that Berth has made, is making, or is removing.
struct MadePartition {
  std::uint64_t job = 0;
  std::string card;  // uuid of the GPU
  std::uint32_t profile = 0;
  std::string name;  // name of the profile, such as "MIG 1g.10gb"
  std::uint64_t memory_bytes = 0;
  MigPlacement place;
  MigStep step = MigStep::kMakeInstance;
  std::optional<std::uint32_t> instance, compute;
  std::string uuid;  // "" until the step kReady
};

}  // namespace berth::model
