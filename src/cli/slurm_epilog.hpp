// What `berth slurm epilog` does about processes and GPU memory that a job has left behind.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engines/slurm_epilog.hpp"
#include "model/snapshot.hpp"

namespace berth::cli {

struct EndedJob {
  std::uint64_t id = 0;
  std::uint32_t uid = 0;
  std::vector<int> gpus;
};
/// The job that slurmd names in SLURM_JOB_ID and SLURM_JOB_UID; nullopt if they are not numbers.
[[nodiscard]] std::optional<EndedJob> ended_job(const std::vector<int>& gpus);

/// Sends SIGTERM to the job's processes on its GPUs, and SIGKILL after 2 s. Waits at most 5 s.
/// Returns how many have ended.
[[nodiscard]] int end_orphans(const EndedJob& job, const model::Snapshot& snapshot);
/// Describes what is still on the job's GPUs; "" if nothing is. Checks repeatedly for at most 3 s,
/// because a driver may free memory late.
[[nodiscard]] std::string wait_for_rest(const EndedJob& job,
                                        const std::function<model::Snapshot()>& look);
/// Sets the job's AdminComment, unless somebody has set it. Ignores failures, because accounting
/// must not keep a job from ending.
void comment_job(const EndedJob& job, const engines::JobEnd& end);

}  // namespace berth::cli
