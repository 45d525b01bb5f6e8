// --berth-hang-timeout: a process beside a Slurm task that notices when the task makes no progress.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "model/tries.hpp"

namespace berth::cli {

struct HangWatchOfTask {
  pid_t task = -1;
  int rank = 0;
  std::string stack_folder;  // see run/stacks.hpp
  std::string record;        // the file in which hangs are recorded
  std::chrono::milliseconds timeout{0};
};
/// Starts the process, which ends with the task. It belongs to the task's step, so Slurm ends it
/// with the step at the latest. False: it could not be started.
[[nodiscard]] bool watch_task(const HangWatchOfTask& watch);
/// The hangs that the process recorded. The result contains no try if there were none.
[[nodiscard]] model::Tries hangs_of_task(const std::string& record);

}  // namespace berth::cli
