// Divides a placement among ranks: devices, cores, threads, variables. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/result.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "run/supervisor.hpp"

namespace berth::run {

struct RankWish {
  int count = 1;                     // 0: as many as the devices allow
  std::optional<int> gpus_per_rank;  // nullopt: devices / ranks
  bool own_cores = false;  // the job has processors of its own, which are divided among the ranks
};

/// One spec per rank, in order. Rank r has the devices r*K to r*K+K-1 of the placement. With one
/// device per rank, all ranks see all devices, as programs for torchrun expect, and LOCAL_RANK is
/// the index of the rank's own device. With several per rank, each rank sees only its own. Fails
/// with kInvalidArgument (E0530) if the devices cannot be divided.
[[nodiscard]] Result<std::vector<RankSpec>> plan_ranks(const RankWish& wish,
                                                       const model::Placement& placement,
                                                       const model::Snapshot& snapshot,
                                                       const model::Environment& environment);

}  // namespace berth::run
