// What a queued job is started with, in two parts: what its submitter asked for lies in a file from
// the submission on, because a broker may come and go meanwhile; what its devices add is known when
// it starts, and goes to its keeper with the order to start.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "run/launch.hpp"

namespace berth::run {

/// FOLDER/launch, JSON, 0600: in a folder that nobody reads before the job is written down. Fails
/// with kUnavailable (E0517).
[[nodiscard]] Status write_launch(const std::string& job_folder, const Launch& launch);
/// Fails with kUnavailable (E0517) where it is not there or not ours.
[[nodiscard]] Result<Launch> read_launch(const std::string& job_folder);

/// The order to start a job.
struct Start {
  std::string job_folder;
  std::string launch_folder;               // of the launch file: an array has one for all its jobs
  std::map<std::string, std::string> set;  // variables
  std::vector<std::string> unset;
  std::vector<int> cpus;
  std::string group;
};

[[nodiscard]] std::string message_of(const Start& start);
/// Fails with kInvalidArgument (E0517) where it is none.
[[nodiscard]] Result<Start> start_in(std::string_view message);
/// What the job is started with in the end.
void add(const Start& start, Launch& launch);

}  // namespace berth::run
