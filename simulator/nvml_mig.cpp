// MIG: profiles of a device, and partitions that programs make on it. A partition is a GPU instance
// with one compute instance, which takes the whole GPU instance. Partitions are stored in the
// shared memory of `berth sim` (wire/sim_mig.hpp), so they outlive the program that made them, like
// the partitions of a real GPU.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simulator/nvml_core.hpp"

using namespace berth::simulator;

/// A handle is the address of an object in a table, as for devices.
struct nvmlGpuInstance_st {
  std::uint32_t unused;
};
struct nvmlComputeInstance_st {
  std::uint32_t unused;
};

namespace {

constexpr std::uint32_t kHandles = wire::kMaxDevices * wire::kMigInstances;
constinit nvmlGpuInstance_st g_instances[kHandles] = {};
constinit nvmlComputeInstance_st g_computes[kHandles] = {};
constexpr Ask kDevice{};

/// For tests of programs that make partitions: BERTH_SIM_KILL=FUNCTION:before or FUNCTION:after
/// kills the process that calls this function, and its parent, before or after the function takes
/// effect.
void kill_at(const char* function, const char* when) {
  const char* wanted = getenv("BERTH_SIM_KILL");  // NOLINT(concurrency-mt-unsafe): never set here
  if (wanted == nullptr) return;
  char here[128];
  snprintf(here, sizeof(here), "%s:%s", function, when);
  if (!same(wanted, here)) return;
  if (getppid() > 1) kill(getppid(), SIGKILL);
  kill(getpid(), SIGKILL);
}

/// The index of a handle in its table; kNone if the pointer is not a handle.
template <typename Handle>
std::uint32_t place_of(const Handle* handle, const Handle* table) {
  const auto at = reinterpret_cast<std::uintptr_t>(handle),
             begin = reinterpret_cast<std::uintptr_t>(table);
  if (at < begin || at >= begin + kHandles * sizeof(Handle) || (at - begin) % sizeof(Handle) != 0)
    return wire::kNone;
  return static_cast<std::uint32_t>((at - begin) / sizeof(Handle));
}

/// A call for a GPU instance, or for its only compute instance, which has the same index.
class InstanceCall {
 public:
  InstanceCall(Function function, std::uint32_t place, bool arguments_ok)
      : call_(function, place == wire::kNone || view().empty() ? nullptr : device_at(place),
              arguments_ok, kDevice),
        place_(place) {
    result_ = call_.result();
    if (result_ == NVML_SUCCESS && (mig_region() == nullptr || me().used == 0))
      result_ = NVML_ERROR_INVALID_ARGUMENT;
  }
  [[nodiscard]] bool ok() const { return result_ == NVML_SUCCESS; }
  [[nodiscard]] nvmlReturn_t result() const { return result_; }
  [[nodiscard]] const Call& call() const { return call_; }
  [[nodiscard]] wire::MigInstance& me() const {
    return mig_region()
        ->device[place_ / wire::kMigInstances]
        .instance[place_ % wire::kMigInstances];
  }
  [[nodiscard]] const wire::MigProfile& profile() const {
    return view().profile(call_.device().profile_first + me().profile);
  }
  [[nodiscard]] nvmlDevice_t device() const { return device_at(place_); }
  [[nodiscard]] std::uint32_t place() const { return place_; }

 private:
  static nvmlDevice_t device_at(std::uint32_t place) {
    return handle_of(place / wire::kMigInstances);
  }
  Call call_;
  std::uint32_t place_;
  nvmlReturn_t result_ = NVML_SUCCESS;
};

/// Returns NVML_SUCCESS if programs can change or list instances on the device now. If not, returns
/// the error.
nvmlReturn_t check(const Call& call) {
  if (!call.ok()) return call.result();
  if (call.device().profile_count == 0 || call.device().mig_enabled == 0 || mig_region() == nullptr)
    return NVML_ERROR_NOT_SUPPORTED;
  return geteuid() == 0 ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}

bool fails(const Call& call, std::uint64_t what) {
  const wire::Fault* fault = call.moment().fault(wire::kMig);
  return fault != nullptr && fault->value == what;
}

const wire::MigProfile* profile_with(const Call& call, std::uint32_t id) {
  for (std::uint32_t i = 0; i < call.device().profile_count; ++i)
    if (const auto& one = view().profile(call.device().profile_first + i); one.id == id)
      return &one;
  return nullptr;
}

wire::MigInstance* instances_of(const Call& call) {
  return mig_region()->device[call.number()].instance;
}

bool is_free(const Call& call, std::uint32_t start, std::uint32_t size) {
  const wire::MigInstance* all = instances_of(call);
  for (std::uint32_t i = 0; i < wire::kMigInstances; ++i) {
    if (all[i].used == 0) continue;
    const auto& other = view().profile(call.device().profile_first + all[i].profile);
    if (start < all[i].start + other.size && all[i].start < start + size) return false;
  }
  return true;
}

/// Returns the smallest free id. The first id for each size is 0 for 7g, 1 for 4g and 3g, 3 for 2g,
/// and 7 for 1g. `nvidia-smi mig -lgi` shows the same ids.
std::uint32_t next_id(const Call& call, std::uint32_t slices) {
  const wire::MigInstance* all = instances_of(call);
  std::uint32_t id = slices >= 5 ? 0 : slices >= 3 ? 1 : slices == 2 ? 3 : 7;
  for (bool taken = true; taken;) {
    taken = false;
    for (std::uint32_t i = 0; i < wire::kMigInstances; ++i)
      taken = taken || (all[i].used != 0 && all[i].id == id);
    if (taken) ++id;
  }
  return id;
}

/// Makes a GPU instance: at `place`, or at the first free place if `place` is nullptr.
nvmlReturn_t make(const Call& call, std::uint32_t id, const nvmlGpuInstancePlacement_t* place,
                  nvmlGpuInstance_t* instance) {
  if (const nvmlReturn_t bad = check(call); bad != NVML_SUCCESS) return bad;
  const wire::MigProfile* profile = profile_with(call, id);
  if (profile == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (fails(call, wire::kMigMake)) return NVML_ERROR_INSUFFICIENT_RESOURCES;
  const berth::wire::RobustLock lock(wire::lock_of(*mig_region()));
  wire::MigInstance* all = instances_of(call);
  for (std::uint32_t s = 0; s < profile->starts; ++s) {
    if (place != nullptr && (place->start != profile->start[s] || place->size != profile->size))
      continue;
    if (!is_free(call, profile->start[s], profile->size)) continue;
    for (std::uint32_t i = 0; i < wire::kMigInstances; ++i) {
      if (all[i].used != 0) continue;
      all[i].id = next_id(call, profile->slices);
      all[i].profile =
          static_cast<std::uint32_t>(profile - &view().profile(call.device().profile_first));
      all[i].start = profile->start[s];
      all[i].compute = 0;
      __atomic_store_n(&all[i].used, 1, __ATOMIC_RELEASE);
      *instance = &g_instances[call.number() * wire::kMigInstances + i];
      return NVML_SUCCESS;
    }
  }
  return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

/// Whether a simulated process runs on the partition, as far as the simulation knows.
bool is_in_use(const InstanceCall& it) {
  return fails(it.call(), wire::kMigRemove);
}

nvmlReturn_t give_places(const Call& call, std::uint32_t id, nvmlGpuInstancePlacement_t* places,
                         std::uint32_t* count) {
  if (!call.ok()) return call.result();
  const wire::MigProfile* profile = profile_with(call, id);
  if (profile == nullptr) return NVML_ERROR_NOT_SUPPORTED;
  const std::uint32_t room = *count;
  *count = profile->starts;
  if (places == nullptr) return NVML_SUCCESS;
  if (room < profile->starts) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (std::uint32_t s = 0; s < profile->starts; ++s)
    places[s] = {profile->start[s], profile->size};
  return NVML_SUCCESS;
}

}  // namespace

NVML(nvmlDeviceGetGpuInstanceProfileInfoV)
(nvmlDevice_t device, std::uint32_t number, nvmlGpuInstanceProfileInfo_v2_t* info) {
  ENTER(nvmlDeviceGetGpuInstanceProfileInfoV, device, info != nullptr, kIdentity);
  if (info->version != nvml_struct_version<nvmlGpuInstanceProfileInfo_v2_t>(2))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (number >= NVML_GPU_INSTANCE_PROFILE_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  for (std::uint32_t i = 0; i < call.device().profile_count; ++i) {
    const wire::MigProfile& one = view().profile(call.device().profile_first + i);
    if (one.number != number) continue;
    info->id = one.id;
    info->isP2pSupported = 0;
    info->sliceCount = one.slices;
    info->instanceCount = one.starts;
    info->multiprocessorCount = one.multiprocessors;
    info->copyEngineCount = one.slices;
    info->decoderCount = info->encoderCount = info->jpegCount = info->ofaCount = 0;
    info->memorySizeMB = one.memory >> 20U;
    snprintf(info->name, sizeof(info->name), "MIG %s", one.name);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_SUPPORTED;
}
NVML(nvmlDeviceGetGpuInstancePossiblePlacements_v2)
(nvmlDevice_t device, std::uint32_t id, nvmlGpuInstancePlacement_t* places, std::uint32_t* count) {
  return give_places(
      Call(f_nvmlDeviceGetGpuInstancePossiblePlacements_v2, device, count != nullptr), id, places,
      count);
}

NVML(nvmlDeviceCreateGpuInstance)
(nvmlDevice_t device, std::uint32_t id, nvmlGpuInstance_t* instance) {
  return make(Call(f_nvmlDeviceCreateGpuInstance, device, instance != nullptr), id, nullptr,
              instance);
}
NVML(nvmlDeviceCreateGpuInstanceWithPlacement)
(nvmlDevice_t device, std::uint32_t id, const nvmlGpuInstancePlacement_t* place,
 nvmlGpuInstance_t* instance) {
  kill_at("nvmlDeviceCreateGpuInstanceWithPlacement", "before");
  const nvmlReturn_t made = make(Call(f_nvmlDeviceCreateGpuInstanceWithPlacement, device,
                                      place != nullptr && instance != nullptr),
                                 id, place, instance);
  kill_at("nvmlDeviceCreateGpuInstanceWithPlacement", "after");
  return made;
}

NVML(nvmlDeviceGetGpuInstances)
(nvmlDevice_t device, std::uint32_t id, nvmlGpuInstance_t* instances, std::uint32_t* count) {
  ENTER(nvmlDeviceGetGpuInstances, device, instances != nullptr && count != nullptr);
  if (const nvmlReturn_t bad = check(call); bad != NVML_SUCCESS) return bad;
  const wire::MigProfile* profile = profile_with(call, id);
  if (profile == nullptr) return NVML_ERROR_NOT_SUPPORTED;
  *count = 0;
  for (std::uint32_t i = 0; i < wire::kMigInstances; ++i) {
    const wire::MigInstance& one = instances_of(call)[i];
    if (one.used != 0 && &view().profile(call.device().profile_first + one.profile) == profile)
      instances[(*count)++] = &g_instances[call.number() * wire::kMigInstances + i];
  }
  return NVML_SUCCESS;
}
NVML(nvmlDeviceGetGpuInstanceById)
(nvmlDevice_t device, std::uint32_t number, nvmlGpuInstance_t* instance) {
  ENTER(nvmlDeviceGetGpuInstanceById, device, instance != nullptr);
  if (const nvmlReturn_t bad = check(call); bad != NVML_SUCCESS) return bad;
  for (std::uint32_t i = 0; i < wire::kMigInstances; ++i)
    if (instances_of(call)[i].used != 0 && instances_of(call)[i].id == number) {
      *instance = &g_instances[call.number() * wire::kMigInstances + i];
      return NVML_SUCCESS;
    }
  return NVML_ERROR_NOT_FOUND;
}
NVML(nvmlGpuInstanceGetInfo)(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t* info) {
  const InstanceCall it(f_nvmlGpuInstanceGetInfo, place_of(instance, g_instances), info != nullptr);
  if (!it.ok()) return it.result();
  *info = {it.device(), it.me().id, it.profile().id, {it.me().start, it.profile().size}};
  return NVML_SUCCESS;
}
NVML(nvmlGpuInstanceDestroy)(nvmlGpuInstance_t instance) {
  kill_at("nvmlGpuInstanceDestroy", "before");
  const InstanceCall it(f_nvmlGpuInstanceDestroy, place_of(instance, g_instances), true);
  if (!it.ok()) return it.result();
  if (const nvmlReturn_t bad = check(it.call()); bad != NVML_SUCCESS) return bad;
  if (it.me().compute != 0 || is_in_use(it)) return NVML_ERROR_IN_USE;
  __atomic_store_n(&it.me().used, 0, __ATOMIC_RELEASE);
  kill_at("nvmlGpuInstanceDestroy", "after");
  return NVML_SUCCESS;
}

// Compute instances. NVML numbers their profiles: 0 to 3 for 1 to 4 slices, and 4 for 7 slices.
NVML(nvmlGpuInstanceGetComputeInstanceProfileInfo)
(nvmlGpuInstance_t instance, std::uint32_t number, std::uint32_t engines,
 nvmlComputeInstanceProfileInfo_t* info) {
  const InstanceCall it(f_nvmlGpuInstanceGetComputeInstanceProfileInfo,
                        place_of(instance, g_instances), info != nullptr);
  if (!it.ok()) return it.result();
  if (number >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT ||
      engines != NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
    return NVML_ERROR_INVALID_ARGUMENT;
  constexpr std::uint32_t kSlices[NVML_COMPUTE_INSTANCE_PROFILE_COUNT] = {1, 2, 3, 4, 7};
  if (kSlices[number] != it.profile().slices) return NVML_ERROR_NOT_SUPPORTED;
  *info = {};
  info->id = number;
  info->sliceCount = it.profile().slices;
  info->instanceCount = 1;
  info->multiprocessorCount = it.profile().multiprocessors;
  return NVML_SUCCESS;
}
NVML(nvmlGpuInstanceCreateComputeInstance)
(nvmlGpuInstance_t instance, std::uint32_t, nvmlComputeInstance_t* compute) {
  kill_at("nvmlGpuInstanceCreateComputeInstance", "before");
  const InstanceCall it(f_nvmlGpuInstanceCreateComputeInstance, place_of(instance, g_instances),
                        compute != nullptr);
  if (!it.ok()) return it.result();
  if (const nvmlReturn_t bad = check(it.call()); bad != NVML_SUCCESS) return bad;
  if (it.me().compute != 0) return NVML_ERROR_INSUFFICIENT_RESOURCES;
  __atomic_store_n(&it.me().compute, 1, __ATOMIC_RELEASE);
  *compute = &g_computes[it.place()];
  kill_at("nvmlGpuInstanceCreateComputeInstance", "after");
  return NVML_SUCCESS;
}
NVML(nvmlGpuInstanceGetComputeInstances)
(nvmlGpuInstance_t instance, std::uint32_t, nvmlComputeInstance_t* computes, std::uint32_t* count) {
  const InstanceCall it(f_nvmlGpuInstanceGetComputeInstances, place_of(instance, g_instances),
                        computes != nullptr && count != nullptr);
  if (!it.ok()) return it.result();
  *count = it.me().compute;
  if (*count != 0) *computes = &g_computes[it.place()];
  return NVML_SUCCESS;
}
NVML(nvmlGpuInstanceGetComputeInstanceById)
(nvmlGpuInstance_t instance, std::uint32_t number, nvmlComputeInstance_t* compute) {
  const InstanceCall it(f_nvmlGpuInstanceGetComputeInstanceById, place_of(instance, g_instances),
                        compute != nullptr);
  if (!it.ok()) return it.result();
  if (number != 0 || it.me().compute == 0) return NVML_ERROR_NOT_FOUND;
  *compute = &g_computes[it.place()];
  return NVML_SUCCESS;
}
NVML(nvmlComputeInstanceGetInfo_v2)
(nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_t* info) {
  const InstanceCall it(f_nvmlComputeInstanceGetInfo_v2, place_of(compute, g_computes),
                        info != nullptr);
  if (!it.ok()) return it.result();
  if (it.me().compute == 0) return NVML_ERROR_INVALID_ARGUMENT;
  *info = {it.device(), &g_instances[it.place()], 0, 0, {0, it.profile().slices}};
  return NVML_SUCCESS;
}
NVML(nvmlComputeInstanceDestroy)(nvmlComputeInstance_t compute) {
  kill_at("nvmlComputeInstanceDestroy", "before");
  const InstanceCall it(f_nvmlComputeInstanceDestroy, place_of(compute, g_computes), true);
  if (!it.ok()) return it.result();
  if (const nvmlReturn_t bad = check(it.call()); bad != NVML_SUCCESS) return bad;
  if (it.me().compute == 0) return NVML_ERROR_INVALID_ARGUMENT;
  if (is_in_use(it)) return NVML_ERROR_IN_USE;
  __atomic_store_n(&it.me().compute, 0, __ATOMIC_RELEASE);
  kill_at("nvmlComputeInstanceDestroy", "after");
  return NVML_SUCCESS;
}
