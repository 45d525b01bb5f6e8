// From a placement to what each rank gets of it: devices, cores, threads, variables. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/result.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "run/supervisor.hpp"

namespace berth::run {

struct RankWish {
  int count = 1;                     // 0: as many as the devices are for
  std::optional<int> gpus_per_rank;  // nullopt: devices / ranks
  bool own_cores = false;            // the job has its processors for itself: they are divided
};

/// One a rank, in their order. Rank r has the devices r*K to r*K+K-1 of the placement. With one
/// device each all ranks see all devices, as programs for torchrun expect, and LOCAL_RANK is the
/// index of a rank's own; with several each rank sees only its own. Fails with kInvalidArgument
/// (E0530), where the devices cannot be divided like this.
[[nodiscard]] Result<std::vector<RankSpec>> plan_ranks(const RankWish& wish,
                                                       const model::Placement& placement,
                                                       const model::Snapshot& snapshot,
                                                       const model::Environment& environment);

}  // namespace berth::run
