#include "job/ranks.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "policy/demand.hpp"
#include "policy/placement.hpp"
#include "run/tries_record.hpp"

namespace berth::job {
namespace {

Error no_folder(const std::string& folder, int problem) {
  return {ErrorCode::kUnavailable, "E0531",
          text("the output of the ranks cannot be written to {}: {}", printable(folder),
               error_words(problem)),
          "ls -ld \"$(dirname " + printable(folder) + ")\""};
}

}  // namespace

model::Request request_for_ranks(model::Request request, const SupervisionWish& wish,
                                 const model::Snapshot& snapshot) {
  const bool says_devices = request.gpus || request.all_gpus || request.memory_bytes ||
                            request.share_permille || !request.devices.empty();
  if (!wish.ranks || says_devices) return request;
  model::Request wanted = request;
  const int each = wish.ranks->gpus_per_rank.value_or(1);
  if (wish.ranks->count == 0)
    wanted.all_gpus = true;
  else
    wanted.gpus = wish.ranks->count * each;
  auto enough = policy::place(wanted, snapshot);
  // Request at most as many GPUs as the machine has. If other jobs hold some of them now, the ranks
  // wait for them.
  while (wish.ranks->oversubscribe && *wanted.gpus > 1 && !policy::demand_of(wanted, snapshot, {}))
    --*wanted.gpus;
  if (wish.ranks->oversubscribe) enough = policy::place(wanted, snapshot);
  for (int count = wish.ranks->count; wish.ranks->least && !enough && count > *wish.ranks->least;) {
    wanted.gpus = --count * each;
    enough = policy::place(wanted, snapshot);
  }
  const bool asks_for_gpus =
      (wish.ranks->count == 0 && !wish.ranks->or_cores) || wish.ranks->gpus_per_rank;
  if (enough || enough.error().code != ErrorCode::kNoDevice || asks_for_gpus) return wanted;
  // If there are fewer devices than ranks, the error names both numbers. If there is no device, the
  // job uses the CPU, like a job without ranks.
  const auto any = policy::place(request, snapshot);
  return any && any->devices.empty() ? request : wanted;
}

Error with_ranks_in_hint(Error refusal, const SupervisionWish& wish) {
  if (!wish.ranks) return refusal;
  constexpr std::string_view kGpus = "berth run --gpus ", kMemory = "berth run --memory ";
  const int each = wish.ranks->gpus_per_rank.value_or(1);
  std::string hint;
  for (const std::string_view line : split(refusal.hint, '\n')) {
    std::string one(line);
    if (line.starts_with(kMemory)) continue;
    if (line.starts_with(kGpus)) {
      const auto end = line.find(' ', kGpus.size());
      const auto gpus = to_number(line.substr(kGpus.size(), end - kGpus.size())).value_or(0);
      const auto ranks = static_cast<long long>(gpus) / each;
      if (ranks == 0) continue;
      one = fmt::format("berth run --ranks {}", ranks);
      if (wish.ranks->gpus_per_rank) one += fmt::format(" --gpus-per-rank {}", each);
      if (end != std::string_view::npos) one += line.substr(end);
    }
    hint += (hint.empty() ? "" : "\n") + one;
  }
  if (refusal.id == "E0411" && wish.ranks->count > 1 && !wish.ranks->gpus_per_rank &&
      !wish.ranks->least && !hint.empty())
    hint += fmt::format("\nberth run --ranks {} --oversubscribe …", wish.ranks->count);
  refusal.hint = hint.empty()
                     ? fmt::format("berth run --ranks {} --cpu …", std::max(1, wish.ranks->count))
                     : hint;
  return refusal;
}

std::function<std::vector<run::RankSpec>(const std::vector<int>& lost)> fewer_ranks(
    const run::RankWish& wish, const model::Placement& placement, const model::Snapshot& snapshot,
    const std::map<std::string, std::string>& variables,
    const policy::EnvironmentOptions& options) {
  return [=](const std::vector<int>& lost) -> std::vector<run::RankSpec> {
    model::Placement left = placement;
    left.devices.clear();
    left.partitions.clear();
    for (std::size_t i = 0; i < placement.devices.size(); ++i) {
      if (std::find(lost.begin(), lost.end(), placement.devices[i]) != lost.end()) continue;
      left.devices.push_back(placement.devices[i]);
      if (i < placement.partitions.size()) left.partitions.push_back(placement.partitions[i]);
    }
    const auto each = static_cast<std::size_t>(wish.gpus_per_rank.value_or(1));
    const std::size_t count = left.devices.size() / each;
    if (count == 0 || count < static_cast<std::size_t>(wish.least.value_or(1))) return {};
    left.devices.resize(count * each);
    if (left.partitions.size() > count * each) left.partitions.resize(count * each);
    const auto environment = policy::environment_for(left, snapshot, variables, options);
    auto ranks = run::plan_ranks(wish, left, snapshot, environment);
    if (!ranks) return {};
    for (run::RankSpec& rank : *ranks)
      for (const model::Setting& one : environment.settings)
        if (one.action == model::Setting::Action::kSet) rank.variables.emplace(one.name, one.value);
    return *std::move(ranks);
  };
}

Result<std::shared_ptr<run::Supervision>> supervision_of(const SupervisionWish& wish,
                                                         const model::Request& request,
                                                         const model::Placement& placement,
                                                         const model::Snapshot& snapshot,
                                                         const model::Environment& environment) {
  if (!wish.is_needed()) return std::shared_ptr<run::Supervision>();
  auto made = std::make_shared<run::Supervision>();
  made->record = run::make_record();
  made->most_tries = wish.retries + 1;
  // The `berth run` process (the front) may change devices only for a job on one node. With several
  // nodes, the other nodes would have to start again too.
  made->leaves_changes_to_front = wish.retries > 0 && wish.node.count == 1;
  made->backoff_least = wish.backoff_least;
  made->backoff_most = wish.backoff_most;
  if (!wish.ranks) {
    made->ranks.resize(1);
    made->ranks.front().devices = placement.devices;
    made->ranks.front().threads = environment.threads;
    return made;
  }
  run::RankWish ranks = *wish.ranks;
  ranks.own_cores = request.cpus.has_value();
  auto planned = run::plan_ranks(ranks, placement, snapshot, environment);
  if (!planned) return std::move(planned).error();
  const auto all = static_cast<int>(planned->size()) * wish.node.count;
  if (wish.input_rank >= all)
    return Error{
        ErrorCode::kInvalidArgument, "E0536",
        text_n("--stdin-rank {}: there is only {} rank, and its number is 0",
               "--stdin-rank {}: there are only {} ranks, from number 0", all, wish.input_rank,
               all),
        fmt::format("berth run --ranks {} --stdin-rank {} -- python train.py", all, all - 1)};
  made->has_ranks = true;
  made->node = wish.node;
  made->input_rank = wish.input_rank;
  made->hang_timeout = wish.hang_timeout;
  made->hang_action = wish.hang_action;
  made->ranks = *std::move(planned);
  made->shown = wish.shown;
  made->nccl_debug = wish.nccl_debug;
  made->log_limit = wish.log_limit;
  if (!wish.log_folder.empty()) {
    std::error_code problem;
    made->log_folder = std::filesystem::absolute(wish.log_folder, problem).string();
    std::filesystem::create_directories(made->log_folder, problem);
    if (problem) return no_folder(wish.log_folder, problem.value());
    if (::access(made->log_folder.c_str(), W_OK | X_OK) != 0)
      return no_folder(wish.log_folder, errno);
  }
  return made;
}

}  // namespace berth::job
