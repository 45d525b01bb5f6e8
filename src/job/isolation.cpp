#include "job/isolation.hpp"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "inventory/memory_limit.hpp"

namespace berth::job {
namespace {

constexpr std::array<std::pair<std::string_view, Isolation>, 6> kWords{
    {{"auto", Isolation::kAuto},
     {"driver", Isolation::kDriver},
     {"mig", Isolation::kMig},
     {"mps", Isolation::kMps},
     {"guard", Isolation::kGuard},
     {"none", Isolation::kNone}}};

/// The job's NVIDIA GPUs. Empty if one of the job's devices is a partition, or not a GPU of NVIDIA.
std::vector<const model::Device*> whole_gpus(const IsolatedJob& job) {
  std::vector<const model::Device*> found;
  for (std::size_t i = 0; i < job.placement.devices.size(); ++i) {
    const auto at = std::find_if(
        job.snapshot.devices.begin(), job.snapshot.devices.end(),
        [&](const model::Device& one) { return one.index == job.placement.devices[i]; });
    const bool is_part =
        i < job.placement.partitions.size() && !job.placement.partitions[i].empty();
    if (is_part || at == job.snapshot.devices.end() || at->vendor != model::Vendor::kNvidia)
      return {};
    found.push_back(&*at);
  }
  return found;
}

Error missing(const char* id, const std::string& what, const std::string& hint) {
  return {ErrorCode::kUnavailable, id, what, hint};
}

Status check_driver(const IsolatedJob& job) {
  const auto gpus = whole_gpus(job);
  const auto fail = [](const std::string& why, const std::string& hint) {
    return missing("E1067", text("the driver cannot limit this job: {}", why), hint);
  };
  if (!job.request.memory_bytes)
    return fail(text("it limits only memory, but no memory was requested"),
                "berth run --isolation driver --memory 8GiB -- …");
  if (gpus.empty())
    return fail(text("it limits only whole NVIDIA GPUs"), "berth run --isolation auto …");
  if (job.in_container)
    return fail(text("the processes of a container are not in the job's control group"),
                "berth run --isolation guard …");
  if (!inventory::can_limit_memory(job.snapshot.driver))
    return fail(text("driver {} cannot limit memory; {} is the first that can",
                     job.snapshot.driver.version.empty() ? "?" : job.snapshot.driver.version,
                     inventory::kMemoryLimitDriver),
                "berth run --isolation guard …");
  if (job.group.empty())
    return fail(text("only root may set the limits, so root must run the broker"),
                "sudo berth serve --system");
  std::vector<inventory::MemoryLimit> limits;
  for (const model::Device* gpu : gpus) limits.push_back({gpu->uuid, *job.request.memory_bytes});
  return inventory::check_memory_limits(job.nvml_library, job.group, limits);
}

Status check_mig(const IsolatedJob& job) {
  const auto& partitions = job.placement.partitions;
  const bool all = !job.placement.devices.empty() &&
                   partitions.size() == job.placement.devices.size() &&
                   std::none_of(partitions.begin(), partitions.end(),
                                [](const std::string& one) { return one.empty(); });
  if (all) return Done{};
  const auto parted =
      std::find_if(job.snapshot.devices.begin(), job.snapshot.devices.end(),
                   [](const model::Device& one) { return !one.partitions.empty(); });
  if (parted != job.snapshot.devices.end())
    return missing("E1068", text("the job did not get a MIG partition, but a whole GPU"),
                   fmt::format("berth run --isolation mig --devices {}:0 -- …", parted->index));
  // `mig_enabled` has a value only for GPUs that support MIG.
  const auto able =
      std::find_if(job.snapshot.devices.begin(), job.snapshot.devices.end(),
                   [](const model::Device& one) { return one.mig_enabled.has_value(); });
  if (able == job.snapshot.devices.end())
    return missing("E1068", text("no GPU of this machine is known to have MIG"),
                   "berth run --isolation guard --memory 8GiB -- …");
  return missing(
      "E1068", text("no GPU of this machine has MIG partitions"),
      fmt::format("sudo nvidia-smi -i {0} -mig 1\nsudo nvidia-smi mig -i {0} -lgip", able->index));
}

/// Whether MPS's control daemon runs. If the daemon was killed, its pid file remains, so check that
/// the process exists.
bool is_alive(const std::string& folder) {
  struct stat pipe {};
  if (::stat((folder + "/control").c_str(), &pipe) != 0) return false;
  const auto file = slurp(folder + "/nvidia-cuda-mps-control.pid", 64);
  const auto pid = file ? to_number(trim(*file)) : std::nullopt;
  return !pid || *pid <= 0 || ::kill(static_cast<pid_t>(*pid), 0) == 0 || errno == EPERM;
}

Status check_mps(const IsolatedJob& job) {
  const auto fail = [](const std::string& why, const std::string& hint) {
    return missing("E1069", text("MPS cannot limit this job: {}", why), hint);
  };
  if (!job.request.memory_bytes && !job.request.share_permille && !job.request.turns.cap_permille)
    return fail(text("neither memory nor a share was requested"),
                "berth run --isolation mps --memory 8GiB -- …");
  if (whole_gpus(job).empty())
    return fail(text("it limits only whole NVIDIA GPUs"), "berth run --isolation auto …");
  if (job.in_container)
    return fail(text("the container cannot reach the pipes of the MPS daemon"),
                "berth run --isolation guard …");
  if (!is_alive(job.mps_folder))
    return fail(
        text("no MPS control daemon is running with its pipes in {}", printable(job.mps_folder)),
        "nvidia-cuda-mps-control -d");
  return Done{};
}

Status check(Isolation method, const IsolatedJob& job) {
  switch (method) {
    case Isolation::kDriver:
      return check_driver(job);
    case Isolation::kMig:
      return check_mig(job);
    case Isolation::kMps:
      return check_mps(job);
    default:
      return Done{};
  }
}

}  // namespace

Result<Isolation> isolation_of(const std::string& word) {
  for (const auto& [name, method] : kWords)
    if (word == name) return method;
  return Error{
      ErrorCode::kInvalidArgument, "E0106",
      text("--isolation: '{}' is not auto, driver, mig, mps, guard or none", printable(word)), ""};
}

std::string_view word_of(Isolation method) {
  for (const auto& [name, one] : kWords)
    if (one == method) return name;
  return "";
}

void set_driver_limits(model::Request& request, Isolation wanted, const model::Driver& driver) {
  const bool may_limit = wanted == Isolation::kAuto || wanted == Isolation::kDriver;
  // Older brokers do not know the key `driver_limits`, and set no limits. So send the key only if
  // it is needed.
  if (inventory::can_limit_memory(driver) && (!may_limit || request.spills))
    request.driver_limits = false;
}

void set_mig_only(model::Request& request, Isolation wanted, const model::Snapshot& snapshot) {
  // Older brokers do not know the key `mig_only`, so send it only if it can change the choice.
  if (wanted == Isolation::kMig && request.devices.empty() &&
      std::any_of(snapshot.devices.begin(), snapshot.devices.end(),
                  [](const model::Device& one) { return one.mig_enabled.value_or(false); }))
    request.mig_only = true;
}

Result<Isolation> choose_method(Isolation wanted, const IsolatedJob& job) {
  if (wanted != Isolation::kAuto) {
    if (auto there = check(wanted, job); !there) return std::move(there).error();
    return wanted;
  }
  // The limits of the driver and of MPS also apply to managed memory. With one of them, --spill
  // could not use managed memory.
  if (job.request.spills) return check(Isolation::kMig, job) ? Isolation::kMig : Isolation::kGuard;
  // MPS changes how jobs share the GPU's time. So use MPS for a job without a memory limit only if
  // it is requested.
  for (const Isolation method : {Isolation::kDriver, Isolation::kMig, Isolation::kMps})
    if ((method != Isolation::kMps || job.request.memory_bytes) && check(method, job))
      return method;
  return Isolation::kGuard;
}

Status check_spill(Isolation wanted, const IsolatedJob& job, bool is_inner) {
  if (!job.request.spills || job.placement.devices.empty()) return Done{};
  const auto fail = [](const std::string& why, const std::string& hint) {
    return missing("E1096", text("memory cannot be spilled: {}", why), hint);
  };
  const std::string without = "berth run --memory 8GiB -- …";
  if (is_inner) return fail(text("the limits of the surrounding job apply"), without);
  if (wanted == Isolation::kDriver || wanted == Isolation::kMps || wanted == Isolation::kNone)
    return fail(text("only the guard can spill memory, which is not possible with {}",
                     fmt::format("--isolation {}", word_of(wanted))),
                "berth run --spill --isolation guard …");
  if (job.placement.devices.size() != 1)
    return fail(text("only a job on one GPU can spill memory"), without);
  const auto gpu =
      std::find_if(job.snapshot.devices.begin(), job.snapshot.devices.end(),
                   [&](const model::Device& one) { return one.index == job.placement.devices[0]; });
  if (gpu == job.snapshot.devices.end() || gpu->vendor != model::Vendor::kNvidia)
    return fail(text("only CUDA programs can spill memory"), without);
  if (job.snapshot.host.wsl) return fail(text("GPUs have no page faults under WSL"), without);
  // Pascal GPUs have compute capability 6.0.
  if (const auto major =
          to_number(gpu->compute_capability.substr(0, gpu->compute_capability.find('.')));
      !major || *major < 6)
    return fail(
        text("it needs a GPU with page faults (compute capability 6.0 or later), but GPU {} has {}",
             gpu->index, gpu->compute_capability.empty() ? "?" : gpu->compute_capability),
        without);
  return Done{};
}

std::string mps_folder(const std::string& variable) {
  return variable.empty() ? "/tmp/nvidia-mps" : variable;
}

MpsLimits mps_limits(const IsolatedJob& job, bool time) {
  MpsLimits limits;
  const model::Request& request = job.request;
  if (request.memory_bytes)
    for (const model::Device* gpu : whole_gpus(job)) {
      // MPS takes whole numbers of MiB, so round down.
      const std::uint64_t mib = std::max<std::uint64_t>(1, *request.memory_bytes >> 20U);
      limits.memory += fmt::format("{}{}={}M", limits.memory.empty() ? "" : ",", gpu->uuid, mib);
    }
  model::TurnRules turns = request.turns;
  turns.cap_permille.reset();
  const auto part =
      request.turns.cap_permille ? request.turns.cap_permille : request.share_permille;
  if (time && part && !turns.any()) limits.threads = std::max(1, *part / 10);
  return limits;
}

}  // namespace berth::job
