// Devices and contexts of the simulated CUDA driver.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulator/cuda_core.hpp"
#include "wire/address_table.hpp"

using namespace berth::simulator;

namespace {

constexpr int kDepth = 32;
__thread CUcontext g_stack[kDepth];
__thread int g_depth = 0;
constinit CUctx_st g_primary[wire::kCudaDevices] = {};
constinit berth::wire::AddressTable<char> g_contexts;  // contexts that are not primary contexts
constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

struct Locked {
  Locked() { pthread_mutex_lock(&g_lock); }
  ~Locked() { pthread_mutex_unlock(&g_lock); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

std::uint64_t key_of(CUcontext context) {
  return reinterpret_cast<std::uintptr_t>(context);
}

/// The bytes of device memory that each context takes: the number in BERTH_SIM_CUDA_CONTEXT, or 0
/// if it is not set.
std::uint64_t cost_of_context() {
  const char* given = getenv("BERTH_SIM_CUDA_CONTEXT");  // NOLINT(concurrency-mt-unsafe)
  return given == nullptr ? 0 : berth::wire::detail::number_at(given);
}

CUresult count_context(CUdevice device, bool more) {
  if (more) {
    if (const CUresult result = charge(device, cost_of_context()); result != CUDA_SUCCESS)
      return result;
  } else {
    wait_for_all(device);
    give_back(device, cost_of_context());
  }
  const wire::CudaLock lock(shared());
  self().contexts[number_of(device)] += more ? 1 : ~std::uint64_t{0};
  return CUDA_SUCCESS;
}

CUresult push(CUcontext context) {
  if (g_depth == kDepth) return CUDA_ERROR_INVALID_VALUE;
  g_stack[g_depth++] = context;
  return CUDA_SUCCESS;
}

CUresult create(CUcontext* out, unsigned flags, CUdevice device) {
  NEED_DRIVER();
  NEED(out != nullptr);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (const CUresult result = count_context(device, true); result != CUDA_SUCCESS) return result;
  auto* context = static_cast<CUcontext>(malloc(sizeof(CUctx_st)));
  if (context == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *context = {device, 1, flags, false};
  const Locked lock;
  g_contexts.put(key_of(context), 1);
  *out = context;
  return push(context);
}

CUresult end_primary(CUdevice device, bool all) {
  NEED_DRIVER();
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  CUcontext context = &g_primary[device];
  {
    const Locked lock;
    if (context->uses == 0) return all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    context->uses = all ? 0 : context->uses - 1;
    if (context->uses > 0) return CUDA_SUCCESS;
  }
  drop_memory_of(context);
  drop_graph_memory(device);
  return count_context(device, false);
}

/// g_peers[a][b]: whether contexts of device a may access memory of device b. Real drivers keep
/// this for each pair of contexts.
constinit bool g_peers[wire::kCudaDevices][wire::kCudaDevices] = {};

bool can_access(CUdevice device, CUdevice peer) {
  return device != peer && describe(device).no_peer_access == 0 &&
         describe(peer).no_peer_access == 0;
}

bool& peer_access(CUcontext from, CUcontext to) {
  return g_peers[from->device][to->device];
}

int value_of(int attribute, const wire::Device& d) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return static_cast<int>(d.clock_graphics_max * 1000);
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return static_cast<int>(d.clock_memory_max * 1000);
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return static_cast<int>(d.multiprocessors);
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return static_cast<int>(d.memory_bus_width);
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
      return d.unified != 0 ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
      return static_cast<int>(d.compute_mode);
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
      return static_cast<int>(d.ecc != 0);
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return static_cast<int>(d.pci_bus);
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
      return static_cast<int>(d.pci_slot);
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
      return static_cast<int>(d.pci_domain);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return static_cast<int>(d.capability_major);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return static_cast<int>(d.capability_minor);
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      return 1;
    default:
      return 0;
  }
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

namespace berth::simulator {

CUcontext current_context() {
  return g_depth == 0 ? nullptr : g_stack[g_depth - 1];
}
bool is_context(CUcontext context) {
  const Locked lock;
  for (CUctx_st& one : g_primary)
    if (context == &one) return one.uses > 0;
  return g_contexts.find(key_of(context)) != nullptr;
}

}  // namespace berth::simulator

CUDA(cuInit)(unsigned flags) {
  NEED(flags == 0);
  return begin();
}
CUDA(cuDriverGetVersion)(int* version) {
  NEED(version != nullptr);
  *version = static_cast<int>(cuda_version());
  return CUDA_SUCCESS;
}
CUDA(cuDeviceGetCount)(int* count) {
  NEED_DRIVER();
  NEED(count != nullptr);
  *count = device_count();
  return CUDA_SUCCESS;
}
CUDA(cuDeviceGet)(CUdevice* device, int ordinal) {
  NEED_DRIVER();
  NEED(device != nullptr);
  if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUDA(cuDeviceGetName)(char* name, int length, CUdevice device) {
  NEED_DRIVER();
  NEED(name != nullptr && length > 0);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, static_cast<std::size_t>(length), "%s", describe(device).name);
  return CUDA_SUCCESS;
}
CUDA(cuDeviceGetUuid)(CUuuid* uuid, CUdevice device) {
  NEED_DRIVER();
  NEED(uuid != nullptr);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *uuid = {};
  int n = 0;
  for (const char* at = strchr(describe(device).uuid, '-'); at != nullptr && *at != 0 && n < 32;
       ++at)
    if (const int digit = hex(*at); digit >= 0) {
      uuid->bytes[n / 2] = static_cast<unsigned char>(uuid->bytes[n / 2] << 4 | digit);
      ++n;
    }
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuDeviceGetUuid_v2, cuDeviceGetUuid);
CUDA(cuDeviceGetPCIBusId)(char* id, int length, CUdevice device) {
  NEED_DRIVER();
  NEED(id != nullptr && length > 0);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const wire::Device& d = describe(device);
  const int need = snprintf(id, static_cast<std::size_t>(length), "%04x:%02x:%02x.0", d.pci_domain,
                            d.pci_bus, d.pci_slot);
  return need < length ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUDA(cuDeviceGetByPCIBusId)(CUdevice* device, const char* id) {
  NEED_DRIVER();
  NEED(device != nullptr && id != nullptr);
  for (int i = 0; i < device_count(); ++i) {
    char own[32];
    if (cuDeviceGetPCIBusId(own, sizeof(own), i) == CUDA_SUCCESS && strcasecmp(own, id) == 0) {
      *device = i;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}
CUDA(cuDeviceGetAttribute)(int* value, int attribute, CUdevice device) {
  NEED_DRIVER();
  NEED(value != nullptr);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = value_of(attribute, describe(device));
  return CUDA_SUCCESS;
}
CUDA(cuDeviceCanAccessPeer)(int* can, CUdevice device, CUdevice peer) {
  NEED_DRIVER();
  NEED(can != nullptr);
  if (!is_device(device) || !is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = can_access(device, peer) ? 1 : 0;
  return CUDA_SUCCESS;
}
CUDA(cuCtxEnablePeerAccess)(CUcontext peer, unsigned flags) {
  NEED_CONTEXT();
  NEED(flags == 0);
  if (!is_context(peer)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!can_access(current_context()->device, peer->device))
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  bool& enabled = peer_access(current_context(), peer);
  if (enabled) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  enabled = true;
  return CUDA_SUCCESS;
}
CUDA(cuCtxDisablePeerAccess)(CUcontext peer) {
  NEED_CONTEXT();
  if (!is_context(peer)) return CUDA_ERROR_INVALID_CONTEXT;
  bool& enabled = peer_access(current_context(), peer);
  if (!enabled) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  enabled = false;
  return CUDA_SUCCESS;
}
CUDA(cuDeviceComputeCapability)(int* major, int* minor, CUdevice device) {
  NEED_DRIVER();
  NEED(major != nullptr && minor != nullptr);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *major = static_cast<int>(describe(device).capability_major);
  *minor = static_cast<int>(describe(device).capability_minor);
  return CUDA_SUCCESS;
}

CUDA(cuCtxCreate_v2)(CUcontext* context, unsigned flags, CUdevice device) {
  return create(context, flags, device);
}
CUDA_ALIAS(cuCtxCreate, cuCtxCreate_v2);
CUDA(cuCtxCreate_v3)
(CUcontext* context, void*, int, unsigned flags, CUdevice device) {
  return create(context, flags, device);
}
CUDA(cuCtxCreate_v4)(CUcontext* context, void*, unsigned flags, CUdevice device) {
  return create(context, flags, device);
}
CUDA(cuCtxDestroy_v2)(CUcontext context) {
  NEED_DRIVER();
  char was = 0;
  {
    const Locked lock;
    if (!g_contexts.take(key_of(context), was)) return CUDA_ERROR_INVALID_CONTEXT;
  }
  drop_memory_of(context);
  if (g_depth > 0 && g_stack[g_depth - 1] == context) --g_depth;
  const CUresult result = count_context(context->device, false);
  free(context);
  return result;
}
CUDA_ALIAS(cuCtxDestroy, cuCtxDestroy_v2);
CUDA(cuCtxAttach)(CUcontext* out, unsigned flags) {
  NEED_DRIVER();
  NEED(out != nullptr && flags == 0);
  if (g_depth == 0 || g_stack[g_depth - 1] == nullptr || g_stack[g_depth - 1]->primary)
    return CUDA_ERROR_INVALID_CONTEXT;
  const Locked lock;
  *out = g_stack[g_depth - 1];
  ++(*out)->uses;
  return CUDA_SUCCESS;
}
CUDA(cuCtxDetach)(CUcontext context) {
  NEED_DRIVER();
  if (context == nullptr || g_depth == 0 || g_stack[g_depth - 1] != context || context->primary)
    return CUDA_ERROR_INVALID_CONTEXT;
  {
    const Locked lock;
    if (--context->uses > 0) return CUDA_SUCCESS;
  }
  return cuCtxDestroy_v2(context);
}
CUDA(cuCtxPushCurrent_v2)(CUcontext context) {
  NEED_DRIVER();
  if (!is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  return push(context);
}
CUDA_ALIAS(cuCtxPushCurrent, cuCtxPushCurrent_v2);
CUDA(cuCtxPopCurrent_v2)(CUcontext* context) {
  NEED_CONTEXT();
  --g_depth;
  if (context != nullptr) *context = g_stack[g_depth];
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuCtxPopCurrent, cuCtxPopCurrent_v2);
CUDA(cuCtxSetCurrent)(CUcontext context) {
  NEED_DRIVER();
  if (context != nullptr && !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  if (g_depth > 0) --g_depth;
  return context == nullptr ? CUDA_SUCCESS : push(context);
}
CUDA(cuCtxGetCurrent)(CUcontext* context) {
  NEED_DRIVER();
  NEED(context != nullptr);
  *context = current_context();
  return CUDA_SUCCESS;
}
CUDA(cuCtxGetDevice)(CUdevice* device) {
  NEED_CONTEXT();
  NEED(device != nullptr);
  *device = current_context()->device;
  return CUDA_SUCCESS;
}
/// If `context` is nullptr, returns the device of this thread's context.
CUDA(cuCtxGetDevice_v2)(CUdevice* device, CUcontext context) {
  if (context == nullptr) return cuCtxGetDevice(device);
  NEED_DRIVER();
  NEED(device != nullptr);
  if (!is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device;
  return CUDA_SUCCESS;
}
CUDA(cuCtxGetFlags)(unsigned* flags) {
  NEED_CONTEXT();
  NEED(flags != nullptr);
  *flags = current_context()->flags;
  return CUDA_SUCCESS;
}
CUDA(cuCtxGetApiVersion)(CUcontext, unsigned* version) {
  NEED_DRIVER();
  NEED(version != nullptr);
  *version = 3020;
  return CUDA_SUCCESS;
}
CUDA(cuCtxSynchronize)() {
  NEED_CONTEXT();
  wait_for_all(current_context()->device);
  return CUDA_SUCCESS;
}
CUDA(cuCtxSynchronize_v2)(CUcontext context) {
  NEED_DRIVER();
  if (!is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  wait_for_all(context->device);
  return CUDA_SUCCESS;
}

CUDA(cuDevicePrimaryCtxRetain)(CUcontext* context, CUdevice device) {
  NEED_DRIVER();
  NEED(context != nullptr);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  bool first = false;
  {
    const Locked lock;
    CUctx_st& primary = g_primary[device];
    first = primary.uses++ == 0;
    primary.device = device;
    primary.primary = true;
  }
  *context = &g_primary[device];
  if (!first) return CUDA_SUCCESS;
  const CUresult result = count_context(device, true);
  if (result != CUDA_SUCCESS) g_primary[device].uses = 0;
  return result;
}
CUDA(cuDevicePrimaryCtxRelease_v2)(CUdevice device) {
  return end_primary(device, false);
}
CUDA_ALIAS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);
CUDA(cuDevicePrimaryCtxReset_v2)(CUdevice device) {
  return end_primary(device, true);
}
CUDA_ALIAS(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2);
CUDA(cuDevicePrimaryCtxSetFlags_v2)(CUdevice device, unsigned flags) {
  NEED_DRIVER();
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  g_primary[device].flags = flags;
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2);
CUDA(cuDevicePrimaryCtxGetState)(CUdevice device, unsigned* flags, int* active) {
  NEED_DRIVER();
  NEED(flags != nullptr && active != nullptr);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = g_primary[device].flags;
  *active = g_primary[device].uses > 0 ? 1 : 0;
  return CUDA_SUCCESS;
}
