// Finds what a Slurm job left on its GPUs (processes and memory), and makes a line about it for
// AdminComment. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/snapshot.hpp"

namespace berth::engines {

/// Whether a process belongs to the job: SLURM_JOB_ID is in its environment (entries end with NUL),
/// or the job is in its control group ("…/job_7/…").
[[nodiscard]] bool is_of_job(std::string_view environment, std::string_view groups,
                             std::uint64_t job);

/// Returns the user's processes on the GPUs with these minor numbers. A process that uses two of
/// these GPUs is returned once.
[[nodiscard]] std::vector<model::DeviceProcess> processes_of(const model::Snapshot& snapshot,
                                                             const std::vector<int>& numbers,
                                                             std::uint32_t uid);

/// Describes what is still on the GPUs: "GPU 1: python3 (pid 812), 3.00 GiB without a process"; ""
/// if nothing is. Graphics processes do not count. Memory without a process only counts from 1 GiB,
/// because the driver itself uses less than that.
[[nodiscard]] std::string left_on(const model::Snapshot& snapshot, const std::vector<int>& numbers);

/// left_reason() makes the drain reason for Slurm. is_left_reason() recognises such a reason.
[[nodiscard]] std::string left_reason(const std::string& left, std::uint64_t job);
[[nodiscard]] bool is_left_reason(std::string_view reason);

struct JobEnd {
  std::vector<int> gpus;
  int ended = 0;  // number of orphaned processes that were ended
  std::string left, unfit;
};
/// The comment as NAME=VALUE pairs for programs: "berth: gpus=0,1 orphans_ended=2 left=none
/// health=ok".
[[nodiscard]] std::string job_comment(const JobEnd& end);
/// Whether Berth may replace the job's AdminComment: it is empty, or Berth wrote it. `shown`: the
/// output of `scontrol show job N --oneliner`.
[[nodiscard]] bool may_comment(std::string_view shown);

}  // namespace berth::engines
