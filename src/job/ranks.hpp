// The supervision of a job with ranks or retries, and the division of its devices among the ranks.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "policy/environment.hpp"
#include "run/hang_action.hpp"
#include "run/node_place.hpp"
#include "run/rank_log.hpp"
#include "run/rank_plan.hpp"

namespace berth::job {

/// The values of the options for ranks, retries and hangs.
struct SupervisionWish {
  std::optional<run::RankWish> ranks;
  run::NodePlace node;
  std::vector<int> shown;
  int input_rank = 0;
  std::string log_folder;
  std::uint64_t log_limit = run::kLogLimit;
  bool nccl_debug = false;
  bool preflight = false;  // test the connections between the ranks before the program starts
  int retries = 0;
  std::chrono::milliseconds hang_timeout = run::kDefaultHangTimeout;
  run::HangAction hang_action = run::HangAction::kReport;
  std::chrono::milliseconds backoff_least = run::kDefaultBackoffLeast;
  std::chrono::milliseconds backoff_most = run::kDefaultBackoffMost;

  [[nodiscard]] bool is_needed() const { return ranks || retries > 0; }
};

/// What all ranks need together. Without device options, each rank gets one free GPU, or the CPU if
/// this machine has no usable GPU.
[[nodiscard]] model::Request request_for_ranks(model::Request request, const SupervisionWish& wish,
                                               const model::Snapshot& snapshot);
/// Replaces --gpus by --ranks in the commands that the hint of a refusal suggests. Leaves out
/// commands with --memory, which is for one device.
[[nodiscard]] Error with_ranks_in_hint(Error refusal, const SupervisionWish& wish);
/// For --ranks MIN:MAX: returns a function that plans the ranks again when some devices of the
/// placement are lost.
[[nodiscard]] std::function<std::vector<run::RankSpec>(const std::vector<int>& lost)> fewer_ranks(
    const run::RankWish& wish, const model::Placement& placement, const model::Snapshot& snapshot,
    const std::map<std::string, std::string>& variables, const policy::EnvironmentOptions& options);
/// Returns nullptr for a job that needs no supervision. Fails with the errors of run::plan_ranks(),
/// with E0531 if the log folder cannot be used, and with E0536 if there is no rank for
/// --stdin-rank.
[[nodiscard]] Result<std::shared_ptr<run::Supervision>> supervision_of(
    const SupervisionWish& wish, const model::Request& request, const model::Placement& placement,
    const model::Snapshot& snapshot, const model::Environment& environment);

}  // namespace berth::job
