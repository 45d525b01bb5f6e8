// Which MIG partition root's broker makes for a job, and how it removes one. Pure: the driver's
// answers come in as values, and the steps go out as values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/ledger.hpp"
#include "model/mig.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

/// A partition to be made.
struct MigChoice {
  const model::MigProfile* profile = nullptr;
  model::MigPlacement place;
};

/// The smallest partition with this much memory that fits now, at the place that leaves the most
/// places for others. Profiles with other engines than usual ("+me", "+gfx") are left to the
/// administrator. nullopt: none fits.
[[nodiscard]] std::optional<MigChoice> choose_partition(const model::MigCard& card,
                                                        std::uint64_t need_bytes);

/// What can be made on the card. Nothing can be made now unless the card is drained: no process
/// uses it, and no job has a lease on it. `beside_jobs`: jobs on partitions that Berth made
/// (Ledger::made) do not count.
[[nodiscard]] model::MigRoom room_of(const model::MigCard& card, const model::Snapshot& snapshot,
                                     const model::Ledger& ledger, bool beside_jobs);

/// The next step to remove a partition.
struct MigRemoval {
  enum class Step : unsigned char {
    kForget,  // nothing to remove: the partition is gone, or Berth did not make it
    kCompute,
    kInstance,
    kLeave  // someone else made a compute instance in it
  };
  Step step = Step::kForget;
  std::uint32_t instance = 0, compute = 0;
};
/// `card`: as the driver reports it now. So the removal also continues after a crash in any step.
/// Removes only what the record says that Berth made.
[[nodiscard]] MigRemoval next_removal(const model::MadePartition& made, const model::MigCard& card);

}  // namespace berth::policy
