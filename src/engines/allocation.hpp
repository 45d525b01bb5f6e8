// The cluster scheduler's allocation in which this process runs, from variables and a snapshot.
// Slurm has already chosen the devices; Berth only uses them. Pure.
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

/// The Slurm job of this process; nullopt if there is none. If BERTH_JOB is set as well, it was
/// inherited through srun.
[[nodiscard]] std::optional<model::EngineJob> slurm_job(const Variables& variables);

/// The part of this machine that Slurm allocated to a job.
struct Allocation {
  model::EngineJob job;
  bool says = false;                 // Slurm has set a variable that names devices
  std::vector<std::string> devices;  // values as for --devices: index or partition uuid
};

/// What a job was allocated. The devices are those that CUDA_VISIBLE_DEVICES or another vendor's
/// variable names, which are the task's own. If none is set, they are those of SLURM_STEP_GPUS or
/// SLURM_JOB_GPUS, by minor number.
[[nodiscard]] Allocation allocation_of(const model::EngineJob& job, const Variables& variables,
                                       const model::Request& request,
                                       const model::Snapshot& snapshot);

/// Limits the request to the allocation. A request without device options gets all devices of the
/// allocation, or the CPU if the allocation has no devices. A request with --gpus N gets the first
/// N. Fails with kRefused (E1010) if there are fewer.
[[nodiscard]] Result<model::Request> within(const Allocation& allocation,
                                            const model::Request& request);
/// "Slurm job 7", for messages.
[[nodiscard]] std::string words_for(const model::EngineJob& job);

}  // namespace berth::engines
