#include "simulator/nvml_core.hpp"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "simulator/state_file.hpp"

namespace berth::simulator {
namespace {

constinit wire::View g_view;
constinit wire::CudaShared* g_cuda = nullptr;
constinit wire::MigShared* g_mig = nullptr;
constinit nvmlDevice_st g_made[wire::kMaxDevices * wire::kMigInstances] = {};
constinit nvmlDevice_st g_devices[wire::kMaxDevices] = {};
constinit nvmlDevice_st g_partitions[wire::kMaxPartitions] = {};
constinit std::uint32_t g_users =
    0;  // number of nvmlInit calls without nvmlShutdown; only written with g_lock held
constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

wire::Shared* map_shared(const wire::State& state) {
  std::size_t bytes = 0;
  auto* shared = static_cast<wire::Shared*>(map_file("shared", true, sizeof(wire::Shared), &bytes));
  if (shared == nullptr) return nullptr;
  const bool fits = shared->magic == wire::kSharedMagic && shared->version == wire::kVersion &&
                    shared->functions == kFunctions && shared->devices == state.devices &&
                    shared->processes == state.processes &&
                    bytes == wire::shared_bytes(kFunctions, state.devices, state.processes);
  if (fits) return shared;
  munmap(shared, bytes);
  return nullptr;
}

/// Checks that all references from devices and processes are valid.
bool consistent(const wire::View& view) {
  const wire::State& state = view.state();
  for (std::uint32_t i = 0; i < state.devices; ++i) {
    const wire::Device& d = view.device(i);
    if (d.process_first + d.process_count > state.processes) return false;
    if (d.partition_first + d.partition_count > state.partitions) return false;
    if (d.profile_first + d.profile_count > state.profiles) return false;
  }
  return true;
}

void fill_handles() {
  for (std::uint32_t i = 0; i < g_view.state().devices; ++i) {
    const wire::Device& device = g_view.device(i);
    g_devices[i] = {i, wire::kNone};
    for (std::uint32_t p = 0; p < device.partition_count; ++p)
      g_partitions[device.partition_first + p] = {i, p};
    for (std::uint32_t p = 0; p < wire::kMigInstances; ++p)
      g_made[i * wire::kMigInstances + p] = {i, kFirstMade + p};
  }
}

/// Maps the state. The caller must hold g_lock. The mapping stays until the process ends, like that
/// of a real driver.
bool map_state() {
  if (!g_view.empty()) return true;
  std::size_t bytes = 0;
  auto* state =
      static_cast<const wire::State*>(map_file("state", false, sizeof(wire::State), &bytes));
  if (state == nullptr) return false;
  const wire::View readable(state, nullptr);
  if (!wire::valid(state, bytes) || !consistent(readable)) return false;
  g_view = wire::View(state, map_shared(*state));
  auto* cuda =
      static_cast<wire::CudaShared*>(map_file("cuda", true, sizeof(wire::CudaShared), &bytes));
  if (cuda != nullptr && cuda->magic == wire::kCudaMagic && cuda->version == wire::kCudaVersion)
    __atomic_store_n(&g_cuda, cuda, __ATOMIC_RELEASE);
  auto* mig = static_cast<wire::MigShared*>(map_file("mig", true, sizeof(wire::MigShared), &bytes));
  if (mig != nullptr && mig->magic == wire::kMigMagic && mig->version == wire::kMigVersion)
    __atomic_store_n(&g_mig, mig, __ATOMIC_RELEASE);
  fill_handles();
  return true;
}

void count(Function function) {
  if (g_view.empty()) return;
  if (std::uint64_t* calls = g_view.calls(function)) __atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
}

bool known(nvmlDevice_t handle) {
  const auto inside = [handle](const nvmlDevice_st* from, std::uint32_t size) {
    const auto at = reinterpret_cast<std::uintptr_t>(handle),
               begin = reinterpret_cast<std::uintptr_t>(from);
    return at >= begin && at < begin + size * sizeof(nvmlDevice_st) &&
           (at - begin) % sizeof(nvmlDevice_st) == 0;
  };
  return inside(g_devices, g_view.state().devices) ||
         inside(g_partitions, g_view.state().partitions) ||
         (inside(g_made, g_view.state().devices * wire::kMigInstances) &&
          is_made(handle->device, handle->partition - kFirstMade));
}

bool initialised() {
  return __atomic_load_n(&g_users, __ATOMIC_ACQUIRE) != 0;
}

const wire::Fault* driver_fault(wire::FaultKind kind) {
  for (std::uint32_t i = 0; i < g_view.state().faults; ++i) {
    const wire::Fault& fault = g_view.fault(i);
    if (fault.kind == kind && fault.device == wire::kNone && now() >= fault.from) return &fault;
  }
  return nullptr;
}

nvmlReturn_t begin_driver(std::uint32_t flags) {
  if (!map_state()) return NVML_ERROR_DRIVER_NOT_LOADED;
  if (g_view.state().driver_present == 0) return NVML_ERROR_LIBRARY_NOT_FOUND;
  if (const wire::Fault* slow = driver_fault(wire::kSlow)) sleep_for(slow->value);
  if (g_users == 0) sleep_for(g_view.state().init_time);
  if (driver_fault(wire::kNoDriver) != nullptr) return NVML_ERROR_DRIVER_NOT_LOADED;
  if (driver_fault(wire::kMismatch) != nullptr) return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
  const wire::Fault* denied = driver_fault(wire::kNoPermission);
  if (denied != nullptr && denied->value != wire::kNoPermissionMemory)
    return NVML_ERROR_NO_PERMISSION;
  if ((flags & (NVML_INIT_FLAG_NO_ATTACH | NVML_INIT_FLAG_NO_GPUS)) == 0)
    for (std::uint32_t i = 0; i < g_view.state().devices; ++i) touch(i);
  return NVML_SUCCESS;
}

}  // namespace

std::uint64_t clock_now() {
  timespec t = {};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * wire::kSecond +
         static_cast<std::uint64_t>(t.tv_nsec);
}

wire::CudaShared* cuda_region() {
  return __atomic_load_n(&g_cuda, __ATOMIC_ACQUIRE);
}

const wire::View& view() {
  return g_view;
}

wire::MigShared* mig_region() {
  return __atomic_load_n(&g_mig, __ATOMIC_ACQUIRE);
}

bool is_made(std::uint32_t device, std::uint32_t place) {
  if (mig_region() == nullptr || place >= wire::kMigInstances) return false;
  const wire::MigInstance& one = mig_region()->device[device].instance[place];
  return __atomic_load_n(&one.used, __ATOMIC_ACQUIRE) != 0 &&
         __atomic_load_n(&one.compute, __ATOMIC_ACQUIRE) != 0;
}

wire::Partition partition_of(std::uint32_t device, std::uint32_t position) {
  const wire::Device& d = g_view.device(device);
  if (position < kFirstMade) return g_view.partition(d.partition_first + position);
  const wire::MigInstance& one = mig_region()->device[device].instance[position - kFirstMade];
  wire::Partition out = {};
  if (one.profile >= d.profile_count) return out;
  const wire::MigProfile& profile = g_view.profile(d.profile_first + one.profile);
  out.memory_total = profile.memory;
  out.device = device;
  out.gpu_instance = one.id;
  out.slices = out.compute_slices = profile.slices;
  out.multiprocessors = profile.multiprocessors;
  memcpy(out.profile, profile.name, sizeof(out.profile));
  // The UUID depends on the device and on the instance, as in the real driver.
  std::uint64_t hash = 0;
  for (const char* at = d.uuid; *at != '\0'; ++at)
    hash = wire::mix(hash, static_cast<unsigned char>(*at));
  const std::uint64_t a = wire::mix(hash, one.id), b = wire::mix(a, hash);
  snprintf(out.uuid, sizeof(out.uuid), "MIG-%08x-%04x-5%03x-%04x-%012llx",
           static_cast<unsigned>(a >> 32U), static_cast<unsigned>(a >> 16U & 0xffff),
           static_cast<unsigned>(a & 0xfff), static_cast<unsigned>(0x8000 | (b >> 48U & 0x3fff)),
           static_cast<unsigned long long>(b & 0xffffffffffff));
  return out;
}

std::uint64_t now() {
  const wire::State& state = g_view.state();
  if (state.frozen >= 0) return static_cast<std::uint64_t>(state.frozen);
  const std::uint64_t time = clock_now(), start = static_cast<std::uint64_t>(state.start_monotonic);
  return time < start ? 0 : time - start;
}

void sleep_for(std::uint64_t nanoseconds) {
  if (nanoseconds == 0) return;
  timespec left = {static_cast<time_t>(nanoseconds / wire::kSecond),
                   static_cast<long>(nanoseconds % wire::kSecond)};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) != 0) {
  }
}

void hang() {
  for (;;) pause();
}

bool same(const char* a, const char* b) {
  return strcmp(a, b) == 0;
}

nvmlReturn_t put_text(const char* from, char* into, std::uint32_t size) {
  const std::size_t length = strlen(from) + 1;
  if (size < length) return NVML_ERROR_INSUFFICIENT_SIZE;
  memcpy(into, from, length);
  return NVML_SUCCESS;
}

nvmlDevice_t handle_of(std::uint32_t device, std::uint32_t partition) {
  if (partition != wire::kNone && partition >= kFirstMade)
    return &g_made[device * wire::kMigInstances + partition - kFirstMade];
  return partition == wire::kNone
             ? &g_devices[device]
             : &g_partitions[g_view.device(device).partition_first + partition];
}

std::uint32_t nvidia_devices() {
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < g_view.state().devices; ++i)
    n += g_view.device(i).vendor == wire::kNvidia ? 1 : 0;
  return n;
}

void touch(std::uint32_t device) {
  if (g_view.device(device).vendor != wire::kNvidia || g_view.device(device).asleep == 0) return;
  if (std::uint64_t* wakes = g_view.wakes(device)) __atomic_fetch_add(wakes, 1, __ATOMIC_RELAXED);
}

nvmlReturn_t initialise(Function function, std::uint32_t flags) {
  pthread_mutex_lock(&g_lock);
  const nvmlReturn_t result = begin_driver(flags);
  count(function);
  if (result == NVML_SUCCESS) __atomic_fetch_add(&g_users, 1, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&g_lock);
  return result;
}

nvmlReturn_t shut_down() {
  pthread_mutex_lock(&g_lock);
  count(f_nvmlShutdown);
  const bool running = g_users != 0;
  if (running) __atomic_fetch_sub(&g_users, 1, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&g_lock);
  return running ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t not_modelled(Function function) {
  const Call call(function);
  return call.ok() ? NVML_ERROR_NOT_SUPPORTED : call.result();
}

Call::Call(Function function, bool arguments_ok) {
  begin(function, arguments_ok);
  if (!ok()) return;
  if (const wire::Fault* slow = driver_fault(wire::kSlow)) sleep_for(slow->value);
}

Call::Call(Function function, nvmlDevice_t handle, bool arguments_ok, Ask ask) : handle_(handle) {
  begin(function, arguments_ok);
  if (!ok()) return;
  if (!known(handle)) {
    result_ = NVML_ERROR_INVALID_ARGUMENT;
    return;
  }
  apply_faults(ask);
  if (!ok()) return;
  const bool lacks =
      ask.ability < wire::kAbilities && (device().unsupported >> ask.ability & 1U) != 0;
  if (lacks || (on_partition() && !ask.partitions)) result_ = NVML_ERROR_NOT_SUPPORTED;
}

void Call::begin(Function function, bool arguments_ok) {
  count(function);
  if (!initialised()) {
    result_ = NVML_ERROR_UNINITIALIZED;
    return;
  }
  now_ = simulator::now();
  if (!arguments_ok) result_ = NVML_ERROR_INVALID_ARGUMENT;
}

void Call::apply_faults(const Ask& ask) {
  const wire::Moment at = moment();
  if (!ask.identity) touch(handle_->device);
  if (const wire::Fault* slow = at.fault(wire::kSlow)) sleep_for(slow->value);
  const wire::Fault* hung = at.fault(wire::kHung);
  if (hung != nullptr && (!ask.identity || hung->value == wire::kHungAll)) hang();
  if (at.fault(wire::kLost) != nullptr) result_ = NVML_ERROR_GPU_IS_LOST;
  const wire::Fault* denied = at.fault(wire::kNoPermission);
  if (denied != nullptr && (denied->value != wire::kNoPermissionMemory ||
                            (ask.ability == wire::k_memory && !on_partition())))
    result_ = NVML_ERROR_NO_PERMISSION;
}

const wire::Device& Call::device() const {
  return g_view.device(handle_->device);
}
wire::Moment Call::moment() const {
  return {g_view, handle_->device, now_};
}

}  // namespace berth::simulator
