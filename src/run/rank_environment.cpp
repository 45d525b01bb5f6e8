#include "run/rank_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "run/flight_recorder.hpp"
#include "run/nccl_log.hpp"
#include "run/stacks.hpp"

namespace berth::run {

std::vector<std::string> environment_of(const RankStart& start,
                                        const std::vector<std::string>& of_job) {
  const Supervision& plan = start.plan;
  const Rank& rank = start.rank;
  std::map<std::string, std::string> own = start.spec.variables;
  own["BERTH_TRY"] = std::to_string(start.try_number);
  if (plan.has_ranks) {
    add_meeting(start.meeting, rank.number, start.world_size, own);
    own["TORCHELASTIC_RESTART_COUNT"] = std::to_string(std::max(0, start.try_number - 1));
    own["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(plan.most_tries - 1);
    own["TORCHELASTIC_RUN_ID"] = fmt::format("berth-{}", ::getpid());
    if (!rank.error_path.empty()) own["TORCHELASTIC_ERROR_FILE"] = rank.error_path;
  }
  if (!rank.nccl_stem.empty()) {
    own["NCCL_DEBUG"] = "INFO";
    own["NCCL_DEBUG_FILE"] = nccl_debug_file(rank.nccl_stem);
  }
  std::string python_path;
  for (const std::string& one : of_job)
    if (one.starts_with("PYTHONPATH=")) python_path = one.substr(one.find('=') + 1);
  if (!start.stack_folder.empty()) add_stack_variables(start.stack_folder, own, python_path);
  std::vector<std::string> all;
  // These variables are set unless the user has set them. PYTHONUNBUFFERED: Python buffers output
  // to a pipe in blocks, so lines would appear late, and the last lines never.
  // TORCH_NCCL_ASYNC_ERROR_HANDLING: an NCCL error ends the rank, as with torchrun.
  // ACCELERATE_USE_CPU: otherwise some versions of accelerate ask PyTorch for NCCL, also without a
  // GPU.
  std::map<std::string, std::string> unless_set;
  if (plan.has_ranks)
    unless_set = {{"PYTHONUNBUFFERED", "1"}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}};
  if (plan.has_ranks && start.spec.devices.empty()) unless_set["ACCELERATE_USE_CPU"] = "true";
  if (!start.flight_stem.empty()) unless_set.merge(flight_variables(start.flight_stem));
  for (const std::string& one : of_job) {
    const std::string name = one.substr(0, one.find('='));
    unless_set.erase(name);
    if (!own.contains(name)) all.push_back(one);
  }
  own.merge(unless_set);
  for (const auto& [name, value] : own) all.push_back(name + "=" + value);
  return all;
}

}  // namespace berth::run
