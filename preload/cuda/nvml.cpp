// What NVML shows inside the job: the quota as the device's memory, and only the job's processes.
// Berth itself, which a job may start, sees the device as it is.
#include "vendor/nvml/abi.hpp"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "preload/cuda/guard.hpp"
#include "preload/old_glibc.hpp"

#define NVML_HOOK(name, parameters, call) GUARD_EXPORT nvmlReturn_t name parameters;
#include "preload/cuda/nvml.inc"
#undef NVML_HOOK

namespace berth::guard {
namespace {

enum Name : int {
#define NVML_HOOK(name, parameters, call) kName_##name,
#include "preload/cuda/nvml.inc"
#undef NVML_HOOK
  kNames
};
struct NvmlHook {
  const char* name;
  void* wrapper;
};
const NvmlHook kHooks[] = {
#define NVML_HOOK(name, parameters, call) {#name, reinterpret_cast<void*>(&::name)},
#include "preload/cuda/nvml.inc"
#undef NVML_HOOK
};
constinit void* g_real[kNames] = {};

/// Finds a function of NVML. The program calls NVML's functions, so it has loaded the library
/// already.
void* nvml_function(const char* name) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  return library == nullptr ? nullptr : libc_dlsym(library, name);
}

/// NVML's own function that a wrapper replaces.
void* real_function(int name) {
  void* known = __atomic_load_n(&g_real[name], __ATOMIC_ACQUIRE);
  if (known != nullptr) return known;
  void* found = nvml_function(kHooks[name].name);
  if (found == kHooks[name].wrapper) return nullptr;
  __atomic_store_n(&g_real[name], found, __ATOMIC_RELEASE);
  return found;
}
template <typename... Parameters>
nvmlReturn_t call_real(int name, Parameters... parameters) {
  auto* function = reinterpret_cast<nvmlReturn_t (*)(Parameters...)>(real_function(name));
  return function == nullptr ? NVML_ERROR_FUNCTION_NOT_FOUND : function(parameters...);
}

int digit_of(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/// The device's index in the limits; -1: the device has no limit.
int place_of_nvml(const Region& job, nvmlDevice_t device) {
  using Get = nvmlReturn_t (*)(nvmlDevice_t, char*, unsigned);
  static Get known = nullptr;
  char text[96] = {};
  unsigned char uuid[16] = {};
  Get get = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
  if (get == nullptr) {
    get = reinterpret_cast<Get>(nvml_function("nvmlDeviceGetUUID"));
    __atomic_store_n(&known, get, __ATOMIC_RELEASE);
  }
  if (get == nullptr || get(device, text, sizeof(text)) != NVML_SUCCESS) return -1;
  int digits = 0;
  const char* at = strchr(text, '-');
  for (; at != nullptr && *at != 0 && digits < 32; ++at) {
    const int digit = digit_of(*at);
    if (digit < 0) continue;
    uuid[digits / 2] = static_cast<unsigned char>(uuid[digits / 2] << 4 | digit);
    ++digits;
  }
  for (std::uint32_t i = 0; digits == 32 && i < job.limits->devices && i < wire::kMaxDevices; ++i)
    if (memcmp(job.limits->device[i].uuid, uuid, sizeof(uuid)) == 0) return static_cast<int>(i);
  return -1;
}

template <typename Memory>
nvmlReturn_t memory(int name, nvmlDevice_t device, Memory* memory) {
  const nvmlReturn_t result = call_real(name, device, memory);
  const Region* job = result == NVML_SUCCESS && memory != nullptr ? seen_region() : nullptr;
  const int place = job == nullptr ? -1 : place_of_nvml(*job, device);
  if (place < 0 || quota_of(place) >= memory->total) return result;
  const auto at = static_cast<std::uint32_t>(place);
  wire::bury_the_dead(*job->usage);
  const std::uint64_t quota = quota_of(place), hidden = quota - memory_limit(place),
                      used = wire::sum_of(*job->usage, at).used + hidden,
                      left = used < quota ? quota - used : 0;
  memory->total = quota;
  memory->used = quota - left;
  if (memory->free > left) memory->free = left;
  if constexpr (requires { memory->reserved; }) memory->reserved = 0;
  return result;
}

bool is_of_job(const wire::Usage& usage, std::uint32_t pid) {
  for (std::uint32_t i = 0; i < wire::places_of(usage); ++i)
    if (usage.process[i].pid == pid &&
        __atomic_load_n(&usage.process[i].state, __ATOMIC_ACQUIRE) == wire::kLives)
      return true;
  return false;
}

/// Lists only the job's processes. Like NVML, returns only their number if the caller's buffer is
/// too small.
template <typename Record>
nvmlReturn_t processes(int name, nvmlDevice_t device, unsigned* count, Record* records) {
  const Region* job = count == nullptr ? nullptr : seen_region();
  if (job == nullptr || place_of_nvml(*job, device) < 0)
    return call_real(name, device, count, records);
  unsigned room = 0;
  nvmlReturn_t result = call_real(name, device, &room, static_cast<Record*>(nullptr));
  if (result != NVML_SUCCESS && result != NVML_ERROR_INSUFFICIENT_SIZE) return result;
  room += 64;  // further programs may start before the next call
  auto* all = static_cast<Record*>(calloc(room, sizeof(Record)));
  if (all == nullptr) return NVML_ERROR_UNKNOWN;
  result = call_real(name, device, &room, all);
  unsigned own = 0;
  for (unsigned i = 0; result == NVML_SUCCESS && i < room; ++i)
    if (is_of_job(*job->usage, all[i].pid)) all[own++] = all[i];
  if (result == NVML_SUCCESS) {
    if (own > *count)
      result = NVML_ERROR_INSUFFICIENT_SIZE;
    else if (own > 0 && records == nullptr)
      result = NVML_ERROR_INVALID_ARGUMENT;
    else if (own > 0)
      memcpy(records, all, own * sizeof(Record));
    *count = own;
  }
  free(all);
  return result;
}

/// Whether the code at this address is Berth's: the program or libberth.
bool is_berth(const void* code) {
  Dl_info info = {};
  if (dladdr(code, &info) == 0 || info.dli_fname == nullptr) return false;
  const char* slash = strrchr(info.dli_fname, '/');
  const char* name = slash == nullptr ? info.dli_fname : slash + 1;
  return strcmp(name, "berth") == 0 || strncmp(name, "berth-", 6) == 0 ||
         strncmp(name, "libberth", 8) == 0;
}

}  // namespace

void* instead_of_nvml(const char* name, void* function, const void* caller) {
  for (int i = 0; function != nullptr && i < kNames; ++i)
    if (strcmp(kHooks[i].name, name) == 0)
      return function == real_function(i) && !is_berth(caller) ? kHooks[i].wrapper : function;
  return function;
}

}  // namespace berth::guard

using namespace berth::guard;

#define NVML_HOOK(name, parameters, call) \
  nvmlReturn_t name parameters {          \
    return call;                          \
  }
#include "preload/cuda/nvml.inc"
#undef NVML_HOOK
