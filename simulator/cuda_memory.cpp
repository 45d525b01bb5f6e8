// Memory of the simulated CUDA driver. Device addresses are valid addresses of the host, so that
// programs can copy to and from them. The used bytes are counted in memory that all processes
// share.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simulator/cuda_core.hpp"
#include "vendor/cuda/formats.hpp"
#include "wire/address_table.hpp"

using namespace berth::simulator;

namespace {

constexpr std::uint64_t kGrain = 512, kPage = 2U << 20U, kSpace = std::uint64_t{4} << 40U,
                        kLowSpace = 256U << 20U, kLowEnd = std::uint64_t{1} << 32U;
constexpr int kClasses = 48;

constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
constinit berth::wire::AddressTable<Allocation> g_allocations;
// the size of each reserved address range, by its address
constinit berth::wire::AddressTable<std::uint64_t> g_ranges;
struct Free {
  std::uint64_t* address;
  std::size_t count, room;
};
/// Hands out the addresses of one range. A second, low range is needed because functions from
/// before CUDA 3.2 have 32-bit addresses.
struct Arena {
  std::uint64_t space, begin, next;
  Free free[kClasses];
};
constinit Arena g_arena = {kSpace, 0, 0, {}};
constinit Arena g_low_arena = {kLowSpace, 0, 0, {}};

struct Locked {
  Locked() { pthread_mutex_lock(&g_lock); }
  ~Locked() { pthread_mutex_unlock(&g_lock); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) {
  return bytes > ~std::uint64_t{0} - to ? ~std::uint64_t{0} / to * to : (bytes + to - 1) / to * to;
}

int class_of(std::uint64_t bytes) {
  int n = 9;
  while (n < kClasses - 1 && (std::uint64_t{1} << static_cast<unsigned>(n)) < bytes) ++n;
  return n;
}

/// Reserves the arena's address range. If that fails, reserves a smaller one, because programs in
/// valgrind have less address space. Returns 0 if that fails, too.
std::uint64_t reserve(Arena& arena) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  if (&arena == &g_arena) {
    constexpr std::uint64_t kSmall = std::uint64_t{2} << 30U;
    void* where = mmap(nullptr, arena.space, kAccess, kFlags, -1, 0);
    if (where == MAP_FAILED) {
      arena.space = kSmall;
      where = mmap(nullptr, arena.space, kAccess, kFlags, -1, 0);
    }
    return where == MAP_FAILED ? 0 : reinterpret_cast<std::uintptr_t>(where);
  }
  for (std::uint64_t at = kLowSpace; at + kLowSpace < kLowEnd; at += kLowSpace / 4) {
    void* where = mmap(reinterpret_cast<void*>(at), arena.space, kAccess, kFlags, -1, 0);
    if (where == MAP_FAILED) continue;
    const auto got = reinterpret_cast<std::uintptr_t>(where);
    if (got + kLowSpace < kLowEnd) return got;
    munmap(where, arena.space);
  }
  return 0;
}

/// Takes a free address range; returns 0 if none is left. Call it with the lock held.
std::uint64_t take_address(std::uint64_t bytes, Arena& arena = g_arena) {
  const int n = class_of(bytes);
  const std::uint64_t size = std::uint64_t{1} << static_cast<unsigned>(n);
  if (size < bytes) return 0;
  if (Free& free_ones = arena.free[n]; free_ones.count > 0)
    return free_ones.address[--free_ones.count];
  if (arena.begin == 0) {
    const std::uint64_t where = reserve(arena);
    if (where == 0) return 0;
    arena.begin = arena.next = round_up(where, kPage);
  }
  const std::uint64_t at = size < kPage ? arena.next : round_up(arena.next, kPage);
  if (at + size > arena.begin + arena.space - kPage) return 0;
  arena.next = at + size;
  return at;
}

void drop_address(std::uint64_t address, std::uint64_t bytes) {
  const int n = class_of(bytes);
  if (bytes >= 64 << 10) madvise(reinterpret_cast<void*>(address), bytes, MADV_DONTNEED);
  Free& free_ones = (address < kLowEnd ? g_low_arena : g_arena).free[n];
  if (free_ones.count == free_ones.room) {
    const std::size_t room = free_ones.room == 0 ? 64 : free_ones.room * 2;
    auto* more =
        static_cast<std::uint64_t*>(realloc(free_ones.address, room * sizeof(std::uint64_t)));
    if (more == nullptr) return;
    free_ones.address = more;
    free_ones.room = room;
  }
  free_ones.address[free_ones.count++] = address;
}

struct Place {
  CUdevice device;
  CUcontext context;
};
Place here() {
  return {current_context()->device, current_context()};
}

CUresult allocate(CUdeviceptr* out, std::uint64_t bytes, Kind kind, Place place,
                  Arena& arena = g_arena) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = charge(place.device, bytes); result != CUDA_SUCCESS) return result;
  const Locked lock;
  const std::uint64_t address = take_address(bytes, arena);
  if (address == 0 || !g_allocations.put(address, {bytes, place.device, kind, place.context, 1})) {
    give_back(place.device, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = address;
  return CUDA_SUCCESS;
}

/// Allocates managed memory from the host's memory. Called if the device has too little memory.
CUresult allocate_on_host(CUdeviceptr* out, std::uint64_t bytes) {
  const Place place = here();
  const Locked lock;
  const std::uint64_t address = take_address(bytes);
  if (address == 0 ||
      !g_allocations.put(address, {bytes, place.device, Kind::kManaged, place.context, 1, true}))
    return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}

/// Allocates a sparse array, which has an address but no memory.
CUresult allocate_nothing(CUdeviceptr* out, Kind kind, Place place) {
  const Locked lock;
  const std::uint64_t address = take_address(kGrain);
  if (address == 0 || !g_allocations.put(address, {0, place.device, kind, place.context, 1}))
    return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}

/// Does the same as allocate() for functions from before CUDA 3.2, whose addresses have 32 bits.
CUresult allocate_low(CUdeviceptr_v1* out, std::uint64_t bytes) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr address = 0;
  const CUresult result = allocate(&address, bytes, Kind::kLinear, here(), g_low_arena);
  if (result == CUDA_SUCCESS) *out = static_cast<CUdeviceptr_v1>(address);
  return result;
}
unsigned shortened(std::size_t bytes) {
  return bytes > ~0U ? ~0U : static_cast<unsigned>(bytes);
}

constexpr bool is_one_of(Kind kind, Kind a, Kind b) {
  return kind == a || kind == b;
}

CUresult release(std::uint64_t address, Kind a, Kind b) {
  const Locked lock;
  Allocation* found = g_allocations.find(address);
  if (found == nullptr || !is_one_of(found->kind, a, b)) return CUDA_ERROR_INVALID_VALUE;
  if (--found->references > 0) return CUDA_SUCCESS;
  Allocation gone = {};
  g_allocations.take(address, gone);
  if (!gone.foreign) give_back(gone.device, gone.bytes);
  drop_address(address, gone.bytes);
  return CUDA_SUCCESS;
}

CUgraph captured_by(CUstream stream) {
  return is_stream(stream) ? stream->capturing : nullptr;
}

constexpr std::uint64_t at_least_one(std::uint64_t n) {
  return n == 0 ? 1 : n;
}
std::uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  std::uint64_t rows = 0, bytes = 0;
  if (__builtin_mul_overflow(at_least_one(d.Height), at_least_one(d.Depth), &rows) ||
      __builtin_mul_overflow(rows, d.Width * bytes_of_format(d.Format, d.NumChannels), &bytes))
    return ~std::uint64_t{0};
  return round_up(bytes, kGrain);
}

CUresult create_array(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned levels, Kind kind) {
  if (out == nullptr || d.Width == 0 || d.NumChannels == 0) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t bytes = 0;
  CUDA_ARRAY3D_DESCRIPTOR level = d;
  const bool is_empty = (d.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0;
  for (unsigned i = 0; i < levels && !is_empty; ++i) {
    const std::uint64_t part = array_bytes(level);
    if (part > ~std::uint64_t{0} - bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    bytes += part;
    level.Width = at_least_one(level.Width / 2);
    level.Height /= 2;
    level.Depth /= 2;
  }
  CUdeviceptr address = 0;
  const CUresult result =
      is_empty ? allocate_nothing(&address, kind, here()) : allocate(&address, bytes, kind, here());
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUarray>(address);
  return result;
}

CUdevice device_of_pool(CUmemoryPool pool) {
  return static_cast<CUdevice>(reinterpret_cast<std::uintptr_t>(pool) >> 4U) - 1;
}
/// The memory pool attributes that programs set. All pools of a device share them. They are stored,
/// but have no effect.
struct PoolAttributes {
  int reuse[3] = {1, 1, 1};
  std::uint64_t threshold = 0;
};
constinit PoolAttributes g_pools[wire::kCudaDevices] = {};

/// Returns a pointer to the attribute, and sets its size. Returns nullptr if the pool or the
/// attribute does not exist.
void* pool_attribute(CUmemoryPool pool, int attribute, std::size_t& size) {
  if (!is_device(device_of_pool(pool))) return nullptr;
  PoolAttributes& all = g_pools[device_of_pool(pool)];
  const bool is_threshold = attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
  size = is_threshold ? sizeof(all.threshold) : sizeof(all.reuse[0]);
  if (is_threshold) return &all.threshold;
  return attribute >= 1 && attribute <= 3 ? &all.reuse[attribute - 1] : nullptr;
}

CUmemoryPool pool_of(CUdevice device) {
  return reinterpret_cast<CUmemoryPool>((static_cast<std::uintptr_t>(device) + 1) << 4U);
}

}  // namespace

namespace berth::simulator {

void drop_memory_of(CUcontext context) {
  for (;;) {
    std::uint64_t one = 0;
    {
      const Locked lock;
      g_allocations.for_each([&](std::uint64_t address, const Allocation& allocation) {
        if (allocation.context == context) one = address;
      });
      if (one == 0) return;
      Allocation gone = {};
      g_allocations.take(one, gone);
      if (!gone.foreign) give_back(gone.device, gone.bytes);
      drop_address(one, gone.bytes);
    }
  }
}

std::uint64_t take_range(std::uint64_t bytes) {
  const Locked lock;
  return take_address(bytes);
}
void drop_range(std::uint64_t address, std::uint64_t bytes) {
  const Locked lock;
  drop_address(address, bytes);
}
bool keep_foreign(std::uint64_t address, const Allocation& allocation) {
  const Locked lock;
  return g_allocations.put(address, allocation);
}
bool find_memory(std::uint64_t address, Kind kind, Allocation& found) {
  const Locked lock;
  const Allocation* at = g_allocations.find(address);
  if (at == nullptr || at->kind != kind) return false;
  found = *at;
  return true;
}
bool forget_memory(std::uint64_t address, Kind kind, Allocation& found) {
  const Locked lock;
  const Allocation* at = g_allocations.find(address);
  return at != nullptr && at->kind == kind && g_allocations.take(address, found);
}
void forget_all_of_graphs(CUdevice device) {
  for (;;) {
    const Locked lock;
    std::uint64_t one = 0;
    g_allocations.for_each([&](std::uint64_t address, const Allocation& allocation) {
      if (allocation.kind == Kind::kGraph && allocation.device == device) one = address;
    });
    Allocation gone = {};
    if (one == 0 || !g_allocations.take(one, gone)) return;
  }
}

}  // namespace berth::simulator

CUDA(cuMemAlloc_v2)(CUdeviceptr* out, std::size_t bytes) {
  NEED_CONTEXT();
  return allocate(out, round_up(bytes, kGrain), Kind::kLinear, here());
}
CUDA(cuMemAllocPitch_v2)
(CUdeviceptr* out, std::size_t* pitch, std::size_t width, std::size_t height, unsigned element) {
  NEED_CONTEXT();
  NEED(pitch != nullptr && width > 0 && height > 0);
  NEED(element == 4 || element == 8 || element == 16);
  *pitch = round_up(width, kGrain);
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(*pitch, height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  return allocate(out, bytes, Kind::kLinear, here());
}
CUDA(cuMemAlloc)(CUdeviceptr_v1* out, unsigned bytes) {
  NEED_CONTEXT();
  return allocate_low(out, round_up(bytes, kGrain));
}
CUDA(cuMemAllocPitch)
(CUdeviceptr_v1* out, unsigned* pitch, unsigned width, unsigned height, unsigned element) {
  NEED_CONTEXT();
  NEED(pitch != nullptr && width > 0 && height > 0);
  NEED(element == 4 || element == 8 || element == 16);
  const std::uint64_t row = round_up(width, kGrain);
  const CUresult result = allocate_low(out, row * height);
  if (result == CUDA_SUCCESS) *pitch = static_cast<unsigned>(row);
  return result;
}
CUDA(cuMemAllocManaged)(CUdeviceptr* out, std::size_t bytes, unsigned flags) {
  NEED_CONTEXT();
  NEED(flags == 1 || flags == 2);
  const CUresult result = allocate(out, round_up(bytes, kGrain), Kind::kManaged, here());
  return result == CUDA_ERROR_OUT_OF_MEMORY ? allocate_on_host(out, round_up(bytes, kGrain))
                                            : result;
}
CUDA(cuMemAdvise)(CUdeviceptr address, std::size_t count, int advice, CUdevice device) {
  NEED_CONTEXT();
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const Locked lock;
  Allocation* at = g_allocations.find(address);
  NEED(at != nullptr && at->kind == Kind::kManaged && count <= at->bytes);
  if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION)
    at->preferred = device;
  else if (advice == CU_MEM_ADVISE_SET_ACCESSED_BY)
    at->accessed = device;
  else
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}
CUDA(cuMemAdvise_v2)
(CUdeviceptr address, std::size_t count, int advice, CUmemLocation location) {
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  return cuMemAdvise(address, count, advice, location.id);
}
CUDA(cuMemRangeGetAttribute)
(void* out, std::size_t size, int attribute, CUdeviceptr address, std::size_t count) {
  NEED_CONTEXT();
  NEED(out != nullptr && size == sizeof(CUdevice));
  Allocation memory = {};
  NEED(find_memory(address, Kind::kManaged, memory) && count <= memory.bytes);
  if (attribute == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION)
    memcpy(out, &memory.preferred, size);
  else if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
    memcpy(out, &memory.accessed, size);
  else
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}
CUDA(cuMemFree_v2)(CUdeviceptr address) {
  NEED_CONTEXT();
  if (address == 0) return CUDA_SUCCESS;
  wait_for_all(current_context()->device);
  if (free_graph_memory(address)) return CUDA_SUCCESS;
  return release(address, Kind::kLinear, Kind::kManaged);
}
CUDA(cuMemFree)(CUdeviceptr_v1 address) {
  return cuMemFree_v2(address);
}
CUDA(cuMemGetInfo_v2)(std::size_t* free_bytes, std::size_t* total) {
  NEED_CONTEXT();
  NEED(free_bytes != nullptr && total != nullptr);
  const std::uint32_t number = number_of(current_context()->device);
  const wire::CudaLock lock(shared());
  wire::bury_the_dead(shared());
  *total = shared().device[number].room;
  *free_bytes = *total - wire::cuda_memory_used(shared(), number);
  return CUDA_SUCCESS;
}
CUDA(cuDeviceTotalMem_v2)(std::size_t* bytes, CUdevice device) {
  NEED_DRIVER();
  NEED(bytes != nullptr);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = describe(device).memory_total;
  return CUDA_SUCCESS;
}

CUDA(cuMemGetInfo)(unsigned* free_bytes, unsigned* total) {
  NEED(free_bytes != nullptr && total != nullptr);
  std::size_t left = 0, all = 0;
  const CUresult result = cuMemGetInfo_v2(&left, &all);
  if (result != CUDA_SUCCESS) return result;
  *free_bytes = shortened(left);
  *total = shortened(all);
  return CUDA_SUCCESS;
}
CUDA(cuDeviceTotalMem)(unsigned* bytes, CUdevice device) {
  NEED(bytes != nullptr);
  std::size_t all = 0;
  const CUresult result = cuDeviceTotalMem_v2(&all, device);
  if (result == CUDA_SUCCESS) *bytes = shortened(all);
  return result;
}

CUDA(cuMemAllocAsync)(CUdeviceptr* out, std::size_t bytes, CUstream stream) {
  NEED_CONTEXT();
  if (const CUgraph graph = captured_by(stream))
    return capture_allocation(graph, out, bytes, current_context()->device);
  return allocate(out, round_up(bytes, kGrain), Kind::kLinear, here());
}
CUDA_ALIAS(cuMemAllocAsync_ptsz, cuMemAllocAsync);
CUDA(cuMemAllocFromPoolAsync)
(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
  NEED_CONTEXT();
  if (!is_device(device_of_pool(pool))) return CUDA_ERROR_INVALID_VALUE;
  if (const CUgraph graph = captured_by(stream))
    return capture_allocation(graph, out, bytes, device_of_pool(pool));
  return allocate(out, round_up(bytes, kGrain), Kind::kLinear, {device_of_pool(pool), nullptr});
}
CUDA_ALIAS(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync);
CUDA(cuMemFreeAsync)(CUdeviceptr address, CUstream stream) {
  NEED_CONTEXT();
  if (const CUgraph graph = captured_by(stream)) return capture_free(graph, address);
  if (free_graph_memory(address)) return CUDA_SUCCESS;
  return release(address, Kind::kLinear, Kind::kLinear);
}
CUDA_ALIAS(cuMemFreeAsync_ptsz, cuMemFreeAsync);
CUDA(cuDeviceGetDefaultMemPool)(CUmemoryPool* pool, CUdevice device) {
  NEED_DRIVER();
  NEED(pool != nullptr);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = pool_of(device);
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuDeviceGetMemPool, cuDeviceGetDefaultMemPool);
CUDA(cuMemGetDefaultMemPool)(CUmemoryPool* pool, CUmemLocation* location, int type) {
  NEED_DRIVER();
  NEED(pool != nullptr && location != nullptr && type == 1);
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  return cuDeviceGetDefaultMemPool(pool, location->id);
}
CUDA_ALIAS(cuMemGetMemPool, cuMemGetDefaultMemPool);
CUDA(cuMemPoolCreate)(CUmemoryPool* pool, const CUmemPoolProps* props) {
  NEED_DRIVER();
  NEED(pool != nullptr && props != nullptr);
  NEED(props->location.type == CU_MEM_LOCATION_TYPE_DEVICE && is_device(props->location.id));
  *pool = pool_of(props->location.id);
  return CUDA_SUCCESS;
}
CUDA(cuMemPoolDestroy)(CUmemoryPool pool) {
  NEED_DRIVER();
  return is_device(device_of_pool(pool)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUDA(cuMemPoolSetAttribute)(CUmemoryPool pool, int attribute, void* value) {
  NEED_DRIVER();
  std::size_t size = 0;
  void* const place = pool_attribute(pool, attribute, size);
  NEED(value != nullptr && is_device(device_of_pool(pool)));
  if (place == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  memcpy(place, value, size);
  return CUDA_SUCCESS;
}
CUDA(cuMemPoolGetAttribute)(CUmemoryPool pool, int attribute, void* value) {
  NEED_DRIVER();
  std::size_t size = 0;
  const void* const place = pool_attribute(pool, attribute, size);
  NEED(value != nullptr && is_device(device_of_pool(pool)));
  if (place == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  memcpy(value, place, size);
  return CUDA_SUCCESS;
}
CUDA(cuMemPoolTrimTo)(CUmemoryPool pool, std::size_t) {
  NEED_DRIVER();
  return is_device(device_of_pool(pool)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUDA(cuMemGetAllocationGranularity)
(std::size_t* bytes, const CUmemAllocationProp* prop, int) {
  NEED_DRIVER();
  NEED(bytes != nullptr && prop != nullptr);
  *bytes = kPage;
  return CUDA_SUCCESS;
}
CUDA(cuMemCreate)
(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* prop,
 unsigned long long flags) {
  NEED_DRIVER();
  NEED(handle != nullptr && prop != nullptr && flags == 0 && bytes > 0 && bytes % kPage == 0);
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!is_device(prop->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  return allocate(handle, bytes, Kind::kPhysical, {prop->location.id, nullptr});
}
CUDA(cuMemRelease)(CUmemGenericAllocationHandle handle) {
  NEED_DRIVER();
  return release(handle, Kind::kPhysical, Kind::kPhysical);
}
CUDA(cuMemAddressReserve)
(CUdeviceptr* out, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long flags) {
  NEED_DRIVER();
  NEED(out != nullptr && flags == 0 && bytes > 0 && bytes % kPage == 0);
  const Locked lock;
  const std::uint64_t address = take_address(bytes);
  if (address == 0 || !g_ranges.put(address, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = address;
  return CUDA_SUCCESS;
}
CUDA(cuMemAddressFree)(CUdeviceptr address, std::size_t bytes) {
  NEED_DRIVER();
  const Locked lock;
  const std::uint64_t* found = g_ranges.find(address);
  if (found == nullptr || *found != bytes) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t size = 0;
  g_ranges.take(address, size);
  drop_address(address, size);
  return CUDA_SUCCESS;
}
CUDA(cuMemMap)
(CUdeviceptr address, std::size_t bytes, std::size_t, CUmemGenericAllocationHandle handle,
 unsigned long long) {
  NEED_DRIVER();
  const Locked lock;
  Allocation* found = g_allocations.find(handle);
  if (found == nullptr || found->kind != Kind::kPhysical || bytes > found->bytes)
    return CUDA_ERROR_INVALID_VALUE;
  ++found->references;
  return g_allocations.put(address,
                           {handle, found->device, Kind::kMapped, nullptr, 1, false, bytes})
             ? CUDA_SUCCESS
             : CUDA_ERROR_OUT_OF_MEMORY;
}
/// One call may unmap several mappings that are next to each other.
CUDA(cuMemUnmap)(CUdeviceptr address, std::size_t bytes) {
  NEED_DRIVER();
  for (CUdeviceptr at = address; at == address || at < address + bytes;) {
    Allocation gone = {};
    if (!forget_memory(at, Kind::kMapped, gone)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = release(gone.bytes, Kind::kPhysical, Kind::kPhysical);
        result != CUDA_SUCCESS)
      return result;
    at += gone.mapped;
  }
  return CUDA_SUCCESS;
}
CUDA(cuMemSetAccess)(CUdeviceptr, std::size_t, const void* access, std::size_t) {
  NEED_DRIVER();
  NEED(access != nullptr);
  return CUDA_SUCCESS;
}
CUDA(cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle* handle, void* address) {
  NEED_DRIVER();
  NEED(handle != nullptr);
  const Locked lock;
  const Allocation* mapped = g_allocations.find(reinterpret_cast<std::uintptr_t>(address));
  if (mapped == nullptr || mapped->kind != Kind::kMapped) return CUDA_ERROR_INVALID_VALUE;
  *handle = mapped->bytes;
  ++g_allocations.find(*handle)->references;
  return CUDA_SUCCESS;
}

CUDA(cuMemMapArrayAsync)(void* list, unsigned count, CUstream) {
  NEED_CONTEXT();
  NEED(list != nullptr && count > 0);
  return CUDA_SUCCESS;
}
CUDA_ALIAS(cuMemMapArrayAsync_ptsz, cuMemMapArrayAsync);

CUDA(cuArrayCreate_v2)(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  NEED_CONTEXT();
  NEED(d != nullptr);
  return create_array(out, {d->Width, d->Height, 0, d->Format, d->NumChannels, 0}, 1, Kind::kArray);
}
CUDA(cuArray3DCreate_v2)(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  NEED_CONTEXT();
  NEED(d != nullptr);
  return create_array(out, *d, 1, Kind::kArray);
}
CUDA(cuArrayCreate)(CUarray* out, const CUDA_ARRAY_DESCRIPTOR_v1* d) {
  NEED_CONTEXT();
  NEED(d != nullptr);
  return create_array(out, {d->Width, d->Height, 0, d->Format, d->NumChannels, 0}, 1, Kind::kArray);
}
CUDA(cuArray3DCreate)(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR_v1* d) {
  NEED_CONTEXT();
  NEED(d != nullptr);
  return create_array(out, {d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags}, 1,
                      Kind::kArray);
}
CUDA(cuArrayDestroy)(CUarray array) {
  NEED_CONTEXT();
  return release(reinterpret_cast<std::uintptr_t>(array), Kind::kArray, Kind::kArray);
}
CUDA(cuMipmappedArrayCreate)
(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* d, unsigned levels) {
  NEED_CONTEXT();
  NEED(d != nullptr && levels > 0 && levels <= 32);
  return create_array(reinterpret_cast<CUarray*>(out), *d, levels, Kind::kMipmap);
}
CUDA(cuMipmappedArrayDestroy)(CUmipmappedArray array) {
  NEED_CONTEXT();
  return release(reinterpret_cast<std::uintptr_t>(array), Kind::kMipmap, Kind::kMipmap);
}

CUDA(cuMemHostAlloc)(void** out, std::size_t bytes, unsigned) {
  NEED_CONTEXT();
  NEED(out != nullptr && bytes > 0);
  *out = malloc(bytes);
  return *out == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUDA(cuMemAllocHost_v2)(void** out, std::size_t bytes) {
  return cuMemHostAlloc(out, bytes, 0);
}
CUDA(cuMemAllocHost)(void** out, unsigned bytes) {
  return cuMemHostAlloc(out, bytes, 0);
}
CUDA(cuMemFreeHost)(void* address) {
  NEED_CONTEXT();
  free(address);
  return CUDA_SUCCESS;
}
