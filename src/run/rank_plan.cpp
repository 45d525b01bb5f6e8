#include "run/rank_plan.hpp"

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "model/cpu_list.hpp"

namespace berth::run {
namespace {

using Cpus = std::vector<int>;

Error not_divisible(std::size_t devices, const RankWish& wish) {
  const int each = wish.gpus_per_rank.value_or(1);
  const int ranks = wish.count == 0 ? std::max(1, static_cast<int>(devices) / each) : wish.count;
  return {ErrorCode::kInvalidArgument, "E0530",
          text_n("{} device cannot be divided evenly among {} ranks",
                 "{} devices cannot be divided evenly among {} ranks",
                 static_cast<long long>(devices), devices, ranks),
          fmt::format("berth run --ranks {} --gpus {} -- python train.py\n{}"
                      "berth run --ranks {} --cpu -- python train.py",
                      ranks, ranks * each,
                      static_cast<std::size_t>(ranks) > devices && each == 1 && wish.nodes == 1
                          ? fmt::format("berth run --ranks {} --gpus {} --oversubscribe -- python "
                                        "train.py\n",
                                        ranks, devices)
                          : "",
                      ranks)};
}

/// Removes up to `count` cores from `from` and returns them in order. Takes only cores that are in
/// `wanted`, unless it is nullptr.
Cpus take(Cpus& from, std::size_t count, const Cpus* wanted) {
  Cpus taken;
  for (auto at = from.begin(); at != from.end() && taken.size() < count;) {
    const bool fits = wanted == nullptr || std::binary_search(wanted->begin(), wanted->end(), *at);
    if (fits) taken.push_back(*at);
    at = fits ? from.erase(at) : at + 1;
  }
  return taken;
}

Cpus local_cpus(const std::vector<int>& devices, const model::Snapshot& snapshot) {
  for (const model::Device& device : snapshot.devices)
    if (!devices.empty() && device.index == devices.front())
      return model::parse_cpu_list(device.local_cpus).value_or(Cpus());
  return {};
}

/// Each rank gets an equal part of the cores. If the topology is known, these are cores near the
/// rank's devices.
void divide_cores(std::vector<RankSpec>& ranks, Cpus cpus, const model::Snapshot& snapshot) {
  if (cpus.size() < ranks.size()) return;
  const std::size_t share = cpus.size() / ranks.size();
  for (RankSpec& rank : ranks) {
    const Cpus near = local_cpus(rank.devices, snapshot);
    if (!near.empty()) rank.cpus = take(cpus, share, &near);
  }
  for (RankSpec& rank : ranks) {
    const Cpus more = take(cpus, share - rank.cpus.size(), nullptr);
    rank.cpus.insert(rank.cpus.end(), more.begin(), more.end());
    std::sort(rank.cpus.begin(), rank.cpus.end());
  }
}

/// Sets the thread counts again for each rank, except variables that the user has set.
void set_threads(RankSpec& rank, const model::Environment& environment) {
  for (const model::Setting& one : environment.settings)
    if (one.action == model::Setting::Action::kSet && one.name.ends_with("_NUM_THREADS"))
      rank.variables[one.name] = std::to_string(rank.threads);
    else if (one.action == model::Setting::Action::kKeep && one.name == "OMP_NUM_THREADS")
      rank.threads = environment.threads;
}

/// Restricts the rank to its own devices. For the second of two ranks, "4,5,6,7" becomes "6,7".
void show_own_devices(RankSpec& rank, std::size_t number, std::size_t each, std::size_t devices,
                      const model::Environment& environment) {
  for (const model::Setting& one : environment.settings) {
    const auto parts = split(one.value, ',');
    if (one.action == model::Setting::Action::kUnset || parts.size() != devices) continue;
    const bool counts_again = one.name == "HIP_VISIBLE_DEVICES" || one.name == "GPU_DEVICE_ORDINAL";
    const bool selects = one.name == "CUDA_VISIBLE_DEVICES" || one.name == "ROCR_VISIBLE_DEVICES" ||
                         one.name == "ZE_AFFINITY_MASK";
    if (!counts_again && !selects) continue;
    std::string own;
    for (std::size_t i = 0; i < each; ++i) {
      own += i == 0 ? "" : ",";
      own += counts_again ? std::to_string(i) : std::string(parts[number * each + i]);
    }
    rank.variables[one.name] = own;
  }
}

void set_numbers(RankSpec& rank, std::size_t number, std::size_t count, const RankWish& wish) {
  const std::string global = std::to_string(static_cast<std::size_t>(wish.node) * count + number);
  const std::string all = std::to_string(static_cast<std::size_t>(wish.nodes) * count);
  rank.variables["LOCAL_RANK"] = std::to_string(number);
  rank.variables["LOCAL_WORLD_SIZE"] = std::to_string(count);
  for (const char* name : {"RANK", "ROLE_RANK"}) rank.variables[name] = global;
  for (const char* name : {"WORLD_SIZE", "ROLE_WORLD_SIZE"}) rank.variables[name] = all;
  for (const char* name : {"GROUP_RANK", "NODE_RANK"})
    rank.variables[name] = std::to_string(wish.node);
  rank.variables["GROUP_WORLD_SIZE"] = std::to_string(wish.nodes);
  rank.variables["ROLE_NAME"] = "default";
  // Rank 0 hosts the store, so it must not wait for an agent's store.
  rank.variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
}

/// Sets the variable from which jax.distributed.initialize() takes the devices. Otherwise each rank
/// would use all visible devices.
void set_devices_of_jax(RankSpec& rank, std::size_t number, std::size_t each) {
  std::string own = std::to_string(number);
  if (each > 1) {
    own.clear();
    for (std::size_t i = 0; i < each; ++i) own += (i == 0 ? "" : ",") + std::to_string(i);
  }
  if (each > 0) rank.variables["JAX_LOCAL_DEVICE_IDS"] = own;
}

}  // namespace

Result<std::vector<RankSpec>> plan_ranks(const RankWish& wish, const model::Placement& placement,
                                         const model::Snapshot& snapshot,
                                         const model::Environment& environment) {
  const std::size_t devices = placement.devices.size();
  const auto each_wanted = static_cast<std::size_t>(wish.gpus_per_rank.value_or(1));
  const std::size_t possible = devices / std::max<std::size_t>(1, each_wanted);
  std::size_t count = wish.count > 0 ? static_cast<std::size_t>(wish.count) : possible;
  if (wish.or_cores && devices == 0) {
    const auto cores = model::parse_cpu_list(environment.cpus).value_or(Cpus()).size();
    count = cores > 0 ? cores : static_cast<std::size_t>(std::max(1, environment.threads));
  }
  if (wish.least && devices > 0)
    count = std::clamp(possible, static_cast<std::size_t>(*wish.least), count);
  // All ranks of a device see only this device, so its number is 0 for each of them.
  const bool is_shared = wish.oversubscribe && devices > 0 && count > devices;
  const std::size_t each = is_shared ? 1 : count == 0 ? 0 : devices / count;
  const bool fits = count > 0 && (is_shared || each * count == devices) &&
                    (devices == 0 ? wish.count > 0 || wish.or_cores : each > 0) &&
                    (devices == 0 || !wish.gpus_per_rank || each == each_wanted);
  if (!fits) return not_divisible(devices, wish);
  std::vector<RankSpec> ranks(count);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = 0; k < each; ++k)
      ranks[i].devices.push_back(placement.devices[(i * each + k) % devices]);
  if (wish.own_cores)
    divide_cores(ranks, model::parse_cpu_list(environment.cpus).value_or(Cpus()), snapshot);
  for (std::size_t i = 0; i < count; ++i) {
    RankSpec& rank = ranks[i];
    set_numbers(rank, i, count, wish);
    set_devices_of_jax(rank, is_shared ? 0 : i, each);
    rank.threads = std::max(1, environment.threads / static_cast<int>(count));
    set_threads(rank, environment);
    if (each > 1 || is_shared)
      show_own_devices(rank, is_shared ? i % devices : i, each, devices, environment);
  }
  return ranks;
}

void add_meeting(const Meeting& meeting, int rank, int world_size,
                 std::map<std::string, std::string>& variables) {
  variables["MASTER_ADDR"] = meeting.address;
  const bool relayed = rank > 0 && meeting.relay_port != 0;
  variables["MASTER_PORT"] = std::to_string(relayed ? meeting.relay_port : meeting.port);
  if (meeting.jax_port != 0) {
    variables["JAX_COORDINATOR_ADDRESS"] = meeting.address + ":" + std::to_string(meeting.jax_port);
    variables["JAX_NUM_PROCESSES"] = std::to_string(world_size);
    variables["JAX_PROCESS_ID"] = std::to_string(rank);
  }
  if (meeting.workers.empty()) return;
  const nlohmann::ordered_json config{{"cluster", {{"worker", meeting.workers}}},
                                      {"task", {{"type", "worker"}, {"index", rank}}}};
  variables["TF_CONFIG"] =
      config.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace berth::run
