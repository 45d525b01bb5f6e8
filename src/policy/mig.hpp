// Decides which MIG partition root's broker makes for a job, and how the broker removes it. Pure:
// takes the driver's answers as values, and returns the next step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/ledger.hpp"
#include "model/mig.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

/// Which partition to make: a profile and its place on the card.
struct MigChoice {
  const model::MigProfile* profile = nullptr;
  model::MigPlacement place;
};

/// Chooses the smallest partition with this much memory that fits now, at the place that leaves the
/// most places free. Profiles with special engines ("+me", "+gfx") are never chosen. nullopt: none
/// fits.
[[nodiscard]] std::optional<MigChoice> choose_partition(const model::MigCard& card,
                                                        std::uint64_t need_bytes);

/// Which partitions can be made on the card. While a process uses the card, or a job has a lease on
/// it, none can be made. `beside_jobs`: jobs on partitions that Berth made (Ledger::made) do not
/// count.
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
/// Returns the next step. `card` is the card as the driver reports it now, so the removal also
/// continues after a crash in any step. Removes only what the record `made` says that Berth made.
[[nodiscard]] MigRemoval next_removal(const model::MadePartition& made, const model::MigCard& card);

}  // namespace berth::policy
