// Memory limits of control groups on a device (driver 615 and newer). The simulated CUDA driver
// enforces them.
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simulator/nvml_core.hpp"

using namespace berth::simulator;

namespace {

bool is_folder(const char* path) {
  struct stat status = {};
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/// Returns NVML_SUCCESS if limits are possible for this device and this control group. If not,
/// returns the error.
nvmlReturn_t check(const Call& call, const char* group) {
  if (call.on_partition() || cuda_region() == nullptr || call.number() >= wire::kCudaDevices)
    return NVML_ERROR_NOT_SUPPORTED;
  if (group == nullptr || strnlen(group, wire::kCudaGroup) == wire::kCudaGroup)
    return NVML_ERROR_INVALID_ARGUMENT;
  return is_folder(group) ? NVML_SUCCESS : NVML_ERROR_OPERATING_SYSTEM;
}

/// Returns the entry with the group's limit. If there is none and `make` is true, returns a free
/// entry; nullptr if there is none of these. Frees the entries of control groups that no longer
/// exist. The lock must be held.
wire::CudaLimit* place_of(std::uint32_t device, const char* group, bool make) {
  wire::CudaLimit* free_one = nullptr;
  for (wire::CudaLimit& limit : cuda_region()->limit) {
    if (limit.holds != 0 && !is_folder(limit.group)) limit.holds = 0;
    if (limit.holds != 0 && limit.device == device && same(limit.group, group)) return &limit;
    if (limit.holds == 0) free_one = &limit;
  }
  return make ? free_one : nullptr;
}

}  // namespace

NVML(nvmlDeviceSetMemoryLimits_v1)(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t* limits) {
  ENTER(nvmlDeviceSetMemoryLimits_v1, device, limits != nullptr, Ask{wire::k_memory, false, true});
  if (geteuid() != 0) return NVML_ERROR_NO_PERMISSION;
  if (const nvmlReturn_t bad = check(call, limits->nameSpace); bad != NVML_SUCCESS) return bad;
  const bool is_none = limits->hardLimit == NVML_DEVICE_MEMORY_LIMIT_MAX;
  if (limits->softLimit > limits->hardLimit ||
      (!is_none && limits->hardLimit > call.device().memory_total))
    return NVML_ERROR_INVALID_ARGUMENT;
  const wire::CudaLock lock(*cuda_region());
  wire::CudaLimit* place = place_of(call.number(), limits->nameSpace, !is_none);
  if (place == nullptr) return is_none ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_RESOURCES;
  place->soft = limits->softLimit;
  place->hard = limits->hardLimit;
  place->device = call.number();
  strncpy(place->group, limits->nameSpace, wire::kCudaGroup - 1);
  place->holds = is_none && limits->softLimit == 0 ? 0 : 1;
  return NVML_SUCCESS;
}

NVML(nvmlDeviceGetMemoryLimits_v1)(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t* limits) {
  ENTER(nvmlDeviceGetMemoryLimits_v1, device, limits != nullptr, Ask{wire::k_memory, false, true});
  if (const nvmlReturn_t bad = check(call, limits->nameSpace); bad != NVML_SUCCESS) return bad;
  const wire::CudaLock lock(*cuda_region());
  const wire::CudaLimit* place = place_of(call.number(), limits->nameSpace, false);
  if (place == nullptr) return NVML_ERROR_NOT_FOUND;
  limits->softLimit = place->soft;
  limits->hardLimit = place->hard;
  limits->currentUsed = wire::used_under(*cuda_region(), *place);
  return NVML_SUCCESS;
}
