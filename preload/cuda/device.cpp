// Maps a CUDA device to its entry in the region (the memory shared with `berth run`).
#include <string.h>

#include "preload/cuda/guard.hpp"

namespace berth::guard {
namespace {

// for each CUDA device: its index in the region plus 2; 1: it has no limit; 0: not looked up yet
constinit int g_places[wire::kMaxDevices] = {};

int find_device(CUdevice device) {
  using GetUuid = CUresult (*)(CUuuid*, CUdevice);
  auto get = reinterpret_cast<GetUuid>(driver_function("cuDeviceGetUuid_v2"));
  if (get == nullptr) get = reinterpret_cast<GetUuid>(driver_function("cuDeviceGetUuid"));
  CUuuid uuid = {};
  if (get == nullptr || get(&uuid, device) != CUDA_SUCCESS) return -1;
  for (std::uint32_t i = 0; i < region()->limits->devices && i < wire::kMaxDevices; ++i)
    if (memcmp(region()->limits->device[i].uuid, uuid.bytes, sizeof(uuid.bytes)) == 0)
      return static_cast<int>(i);
  return -1;
}

}  // namespace

void forget_all() {
  forget_turns();
  forget_memory();
  forget_graphs();
}

int place_of(CUdevice device) {
  if (region() == nullptr || device < 0 || device >= static_cast<int>(wire::kMaxDevices)) return -1;
  int known = __atomic_load_n(&g_places[device], __ATOMIC_RELAXED);
  if (known == 0) {
    known = find_device(device) + 2;
    __atomic_store_n(&g_places[device], known, __ATOMIC_RELAXED);
  }
  return known - 2;
}

CUcontext current_context() {
  using GetCurrent = CUresult (*)(CUcontext*);
  static const auto current = reinterpret_cast<GetCurrent>(driver_function("cuCtxGetCurrent"));
  CUcontext context = nullptr;
  if (current == nullptr || current(&context) != CUDA_SUCCESS) return nullptr;
  return context;
}

Here here() {
  using GetDevice = CUresult (*)(CUdevice*);
  static const auto device_of = reinterpret_cast<GetDevice>(driver_function("cuCtxGetDevice"));
  Here out = {-1, current_context()};
  if (out.context == nullptr || device_of == nullptr || device_of(&out.device) != CUDA_SUCCESS)
    return {-1, nullptr};
  return out;
}

}  // namespace berth::guard
