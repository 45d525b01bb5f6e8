// The part of this machine that a cluster scheduler (Slurm) allocated to this process, from
// variables and a snapshot. Slurm has already chosen the devices; Berth only uses them. Pure.
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

/// Returns the Slurm job of this process; nullopt if there is none. BERTH_JOB may be set, too,
/// because srun passes on the caller's variables.
[[nodiscard]] std::optional<model::EngineJob> slurm_job(const Variables& variables);

/// The part of this machine that Slurm allocated to a job.
struct Allocation {
  model::EngineJob job;
  bool says = false;                 // a variable set by Slurm names the devices
  std::vector<std::string> devices;  // values as for --devices: device indices or partition uuids
};

/// Returns what a job was allocated. If CUDA_VISIBLE_DEVICES or another vendor's variable is set,
/// it names the task's own devices. If not, SLURM_STEP_GPUS or SLURM_JOB_GPUS gives their minor
/// numbers.
[[nodiscard]] Allocation allocation_of(const model::EngineJob& job, const Variables& variables,
                                       const model::Request& request,
                                       const model::Snapshot& snapshot);

/// Limits the request to the allocation. A request without device options gets all devices of the
/// allocation, or the CPU if the allocation has no devices. A request with --gpus N gets the first
/// N. Fails with kRefused (E1010) if there are fewer.
[[nodiscard]] Result<model::Request> within(const Allocation& allocation,
                                            const model::Request& request);
/// The job's name for messages: "Slurm job 7".
[[nodiscard]] std::string words_for(const model::EngineJob& job);

}  // namespace berth::engines
