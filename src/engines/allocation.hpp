// The allocation of a cluster's scheduler that this process runs in: pure, from variables and a
// snapshot. Slurm has decided which devices are ours; Berth only takes them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

using Variables = std::map<std::string, std::string>;

/// nullopt: not a Slurm job. A BERTH_JOB set at the same time was inherited through srun.
[[nodiscard]] std::optional<model::EngineJob> slurm_job(const Variables& variables);

/// The part of this machine that Slurm allocated to a job.
struct Allocation {
  model::EngineJob job;
  bool says = false;                 // Slurm set a variable that names devices
  std::vector<std::string> devices;  // as for --devices: index or partition uuid
};

/// The devices are those that CUDA_VISIBLE_DEVICES or another vendor's variable names, which is the
/// task's own part; without one, those of SLURM_STEP_GPUS and SLURM_JOB_GPUS by minor number.
[[nodiscard]] Allocation allocation_of(const model::EngineJob& job, const Variables& variables,
                                       const model::Request& request,
                                       const model::Snapshot& snapshot);

/// The request inside the allocation. Without device options it becomes all of its devices, or the
/// CPU if it has none; --gpus N becomes its first N. Fails with kRefused (E1010) if it has fewer.
[[nodiscard]] Result<model::Request> within(const Allocation& allocation,
                                            const model::Request& request);
/// "Slurm job 7", for people.
[[nodiscard]] std::string words_for(const model::EngineJob& job);

}  // namespace berth::engines
