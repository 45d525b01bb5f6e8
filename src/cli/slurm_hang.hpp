// --berth-hang-timeout: a process next to a Slurm task that detects when the task makes no
// progress.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "model/tries.hpp"

namespace berth::cli {

struct HangWatchOfTask {
  pid_t task = -1;
  int rank = 0;
  std::string stack_folder;  // the folder for the task's stacks (run/stacks.hpp)
  std::string record;        // the file in which hangs are recorded
  std::chrono::milliseconds timeout{0};
};
/// Starts the watching process, which ends with the task. It belongs to the task's job step, so
/// Slurm kills it with the step at the latest. Returns false if it could not be started.
[[nodiscard]] bool watch_task(const HangWatchOfTask& watch);
/// Reads the hangs that the watching process recorded. The result is empty if there were none.
[[nodiscard]] model::Tries hangs_of_task(const std::string& record);

}  // namespace berth::cli
