#include "engines/allocation.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "model/cpu_list.hpp"
#include "model/device_use.hpp"
#include "policy/visible.hpp"

namespace berth::engines {
namespace {

std::string value_of(const Variables& variables, const char* name) {
  const auto at = variables.find(name);
  return at == variables.end() ? "" : at->second;
}

std::string selector_of(const policy::Unit& unit) {
  return unit.partition_uuid.empty() ? std::to_string(unit.device) : unit.partition_uuid;
}

/// Returns the indices of the NVIDIA GPUs whose minor numbers are in a list such as "0-1,3".
std::vector<std::string> by_minor(const std::string& list, const model::Snapshot& snapshot) {
  std::vector<std::string> devices;
  const auto numbers = model::parse_cpu_list(list);
  if (!numbers) return devices;
  for (const int number : *numbers)
    for (const model::Device& device : snapshot.devices)
      if (device.vendor == model::Vendor::kNvidia && device.kind == model::DeviceKind::kGpu &&
          device.minor_number == static_cast<std::uint32_t>(number))
        devices.push_back(std::to_string(device.index));
  return devices;
}

}  // namespace

std::optional<model::EngineJob> slurm_job(const Variables& variables) {
  model::EngineJob job;
  job.engine = "slurm";
  job.job = value_of(variables, "SLURM_JOB_ID");
  if (job.job.empty()) return std::nullopt;
  job.step = value_of(variables, "SLURM_STEP_ID");
  job.node = value_of(variables, "SLURMD_NODENAME");
  const auto rank = to_number(value_of(variables, "SLURM_PROCID"));
  if (rank && *rank >= 0 && *rank < 1 << 30) job.rank = static_cast<int>(*rank);
  return job;
}

Allocation allocation_of(const model::EngineJob& job, const Variables& variables,
                         const model::Request& request, const model::Snapshot& snapshot) {
  Allocation allocation;
  allocation.job = job;
  const policy::Visible visible = policy::inherited_visibility(request, snapshot);
  if (visible.restricted) {
    allocation.says = true;
    for (const policy::Unit& unit : visible.units) allocation.devices.push_back(selector_of(unit));
    return allocation;
  }
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
    const std::string list = value_of(variables, name);
    if (list.empty()) continue;
    allocation.says = true;
    allocation.devices = by_minor(list, snapshot);
    break;
  }
  return allocation;
}

Result<model::Request> within(const Allocation& allocation, const model::Request& request) {
  model::Request inside = request;
  // A request that names devices, or no GPU, is not changed here. The scheduler's variables already
  // limit the devices that it can name.
  if (!request.devices.empty() || request.gpus == 0) return inside;
  const bool asks = request.gpus || request.all_gpus.value_or(false);
  if (!allocation.says && asks) return inside;
  const std::size_t has = allocation.devices.size();
  if (asks && !request.all_gpus.value_or(false) && static_cast<std::size_t>(*request.gpus) > has)
    return Error{
        ErrorCode::kRefused, "E1010",
        text_n("{} has {} GPU here; {} were requested", "{} has {} GPUs here; {} were requested",
               static_cast<long long>(has), words_for(allocation.job), has, *request.gpus),
        fmt::format("srun --gres=gpu:{} berth run …", *request.gpus)};
  if (has == 0) {
    if (asks || request.memory_bytes)
      return Error{ErrorCode::kRefused, "E1010",
                   text("{} has no GPU here", words_for(allocation.job)),
                   "srun --gres=gpu:1 berth run …"};
    inside.gpus = 0;
    return inside;
  }
  // With --memory and several allocated devices, the policy chooses one device by its free memory.
  if (request.memory_bytes && !asks && has > 1 && allocation.says) return inside;
  inside.devices = allocation.devices;
  if (request.gpus) inside.devices.resize(static_cast<std::size_t>(*request.gpus));
  inside.gpus.reset();
  inside.all_gpus.reset();
  return inside;
}

std::string words_for(const model::EngineJob& job) {
  return text("Slurm job {}", printable(job.job));
}

}  // namespace berth::engines
