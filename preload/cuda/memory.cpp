// Device memory is charged before the driver is called. The charge is returned if the driver
// refuses or frees the memory. Addresses and handles that are unknown here are passed on to the
// driver unchanged.
#include <errno.h>
#include <unistd.h>

#include <type_traits>

#include "preload/cuda/hooks.hpp"
#include "preload/ledger.hpp"
#include "vendor/cuda/formats.hpp"
#include "wire/address_table.hpp"

namespace berth::guard {
namespace {

/// Granularity of linear memory. The driver itself checks the granularity of physical memory.
constexpr std::uint64_t kGrain = 512;

struct Held {
  std::uint64_t bytes;
  int place;
  std::uint32_t uses;  // number of users of a physical allocation: its handle and its mappings
  CUcontext context;   // the context with which the memory is freed; nullptr: none
  bool pooled;         // the driver may keep it for later requests when it is freed
  bool spilled;        // managed memory beyond the quota
  // the program requested device memory, so the guard moves the spilled memory to the device
  bool prefetched;
};

constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
constinit berth::wire::AddressTable<Held> g_held;
struct Mapped {
  std::uint64_t handle, bytes;
};
constinit berth::wire::AddressTable<Mapped> g_mapped;  // the key is the address
// the device of each memory pool; -1: the pool is in host memory
constinit berth::wire::AddressTable<CUdevice> g_pools;
constinit CUcontext g_primary[wire::kMaxDevices] = {};
/// Held while the driver creates or frees physical memory, until the tables are updated. Without
/// this lock, another thread could get a freed handle before its entry is removed.
constinit pthread_mutex_t g_physical = PTHREAD_MUTEX_INITIALIZER;

std::uint64_t round_up(std::uint64_t bytes) {
  return bytes > ~std::uint64_t{0} - kGrain ? bytes : (bytes + kGrain - 1) / kGrain * kGrain;
}

void tell_not_spilled(std::uint64_t bytes) {
  const int error = errno;
  say_once(6,
           "berth: out of memory beyond the job's quota: the driver refused %s of managed memory",
           show(bytes).text);
  errno = error;
}

/// Whether the job has --spill. The flag is the same for all devices of the job.
bool spills(int place) {
  return (region()->limits->device[place].flags & wire::kSpill) != 0;
}

/// What happens to a request beyond the quota: with --spill, linear memory becomes managed memory.
enum class Beyond { kRefuse, kMaySpill };

/// One allocation in progress: it is charged first, and the charge is returned if it fails.
class Charge {
 public:
  Charge(CUdevice device, CUcontext context, std::uint64_t bytes, Beyond beyond = Beyond::kRefuse)
      : context_(context), bytes_(bytes), place_(bytes == 0 ? -1 : place_of(device)) {
    if (place_ < 0) return;
    refused_ = wire::charge(*region()->usage, counters(place_), static_cast<std::uint32_t>(place_),
                            bytes_, memory_limit(place_)) != wire::Answer::kGranted;
    if (!refused_) return;
    if (beyond == Beyond::kMaySpill && spills(place_)) {
      refused_ = false;
      spilled_ = true;
      return;
    }
    refuse(bytes_);
  }
  [[nodiscard]] bool refused() const { return refused_; }
  /// Whether the request must become managed memory, which is not charged to the quota.
  [[nodiscard]] bool spilled() const { return spilled_; }
  [[nodiscard]] int place() const { return place_; }
  /// Marks the memory as taken from a pool.
  Charge& from_pool() {
    pooled_ = true;
    return *this;
  }
  /// Marks the memory as managed memory that the program itself requested. The program decides
  /// where it is, so the guard does not move it.
  Charge& of_program() {
    of_program_ = true;
    return *this;
  }
  /// Records the driver's result and the memory's address.
  template <typename Handle>
  CUresult end(CUresult result, const Handle* address) {
    if (place_ < 0) return result;
    if (spilled_) return end_spilled(result, result == CUDA_SUCCESS ? key_of(*address) : 0);
    if (result != CUDA_SUCCESS) {
      wire::give_back(counters(place_), bytes_);
      if (result == CUDA_ERROR_OUT_OF_MEMORY) tell_device_full(place_, bytes_);
      return result;
    }
    count(counters(place_).allocations);
    if (pooled_) {
      wire::Counters& own = counters(place_);
      wire::add_word(own.pooled, bytes_);
      wire::raise_word(own.pooled_peak, wire::read_word(own.pooled));
    }
    const Locked lock(g_lock);
    g_held.put(key_of(*address), {bytes_, place_, 1, context_, pooled_, false, false});
    return result;
  }
  void refuse(std::uint64_t bytes) {
    count(counters(place_).refusals);
    tell_refused(place_, bytes);
  }
  /// Corrects the charge if the driver took more or less than expected. False: the quota does not
  /// allow the difference.
  [[nodiscard]] bool correct(std::uint64_t bytes) {
    if (place_ < 0 || bytes == bytes_) return true;
    if (bytes < bytes_) {
      wire::give_back(counters(place_), bytes_ - bytes);
    } else if (wire::charge(*region()->usage, counters(place_), static_cast<std::uint32_t>(place_),
                            bytes - bytes_, memory_limit(place_)) != wire::Answer::kGranted) {
      return false;
    }
    bytes_ = bytes;
    return true;
  }

 private:
  /// Counts spilled memory after it was allocated, because no limit has to be checked before the
  /// allocation.
  CUresult end_spilled(CUresult result, std::uint64_t address) {
    wire::Counters& own = counters(place_);
    if (result != CUDA_SUCCESS) {
      if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        count(own.refusals);
        tell_not_spilled(bytes_);
      }
      return result;
    }
    count(own.allocations);
    wire::add_word(own.spilled, bytes_);
    wire::raise_word(own.spilled_peak,
                     wire::spilled_of(*region()->usage, static_cast<std::uint32_t>(place_)));
    const Locked lock(g_lock);
    g_held.put(address, {bytes_, place_, 1, context_, false, true, !of_program_});
    return result;
  }

  CUcontext context_;
  std::uint64_t bytes_;
  int place_;
  bool refused_ = false, pooled_ = false, spilled_ = false, of_program_ = false;
};

void drop(const Held& held) {
  if (region() == nullptr) return;
  if (held.spilled)
    wire::take_word(counters(held.place).spilled, held.bytes);
  else
    wire::give_back(counters(held.place), held.bytes);
  if (held.pooled) wire::take_word(counters(held.place).pooled, held.bytes);
  count(counters(held.place).frees);
}

/// Remove the entry before the driver frees the address, because another thread may get it right
/// after that.
template <typename Real>
CUresult free_one(std::uint64_t address, Real&& real_free) {
  Held held = {};
  bool known = false;
  {
    const Locked lock(g_lock);
    known = g_held.take(address, held);
  }
  const CUresult result = real_free();
  if (!known) {
    if (result == CUDA_SUCCESS && address != 0) recount_graphs();
    return result;
  }
  if (result == CUDA_SUCCESS) {
    drop(held);
  } else {
    const Locked lock(g_lock);
    g_held.put(address, held);
  }
  return result;
}

void drop_all_of(CUcontext context) {
  forget_contexts();
  recount_graphs();
  if (context == nullptr) return;
  for (;;) {
    Held held = {};
    {
      const Locked lock(g_lock);
      std::uint64_t one = 0;
      g_held.for_each([&](std::uint64_t address, const Held& candidate) {
        if (candidate.context == context) one = address;
      });
      if (one == 0) return;
      g_held.take(one, held);
    }
    drop(held);
  }
}

/// Removes one use of physical memory; returns its data if that was the last.
bool drop_use(std::uint64_t handle, Held& held) {
  const Locked lock(g_lock);
  Held* found = g_held.find(handle);
  if (found == nullptr || --found->uses > 0) return false;
  return g_held.take(handle, held);
}

template <typename Real>
CUresult allocate_async(Real real_function, CUdeviceptr* out, std::size_t bytes, CUstream stream,
                        CUstream own) {
  // If the stream is being captured, the request becomes a node of the graph.
  if (is_captured(own)) return real_function(out, bytes, stream);
  const Here at = here();
  Charge charge(at.device, at.context, round_up(bytes));
  if (charge.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  return charge.from_pool().end(real_function(out, bytes, stream), out);
}

template <typename Real>
CUresult allocate_from_pool(Real real_function, CUdeviceptr* out, std::size_t bytes,
                            CUmemoryPool pool, CUstream stream, CUstream own) {
  if (is_captured(own)) return real_function(out, bytes, pool, stream);
  CUdevice device = here().device;
  {
    const Locked lock(g_lock);
    if (const CUdevice* known = g_pools.find(key_of(pool))) device = *known;
  }
  Charge charge(device, nullptr, round_up(bytes));
  if (charge.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  return charge.from_pool().end(real_function(out, bytes, pool, stream), out);
}

/// Allocates managed memory beyond the quota. If its pages do not fit into the device's memory, the
/// advice makes the device read them over PCIe instead of moving them each time. The contents are
/// right without the advice, too.
CUresult allocate_managed(CUdeviceptr* out, std::uint64_t bytes, CUdevice device) {
  using Advise = CUresult (*)(CUdeviceptr, std::size_t, int, CUdevice);
  static const auto advise = reinterpret_cast<Advise>(driver_function("cuMemAdvise"));
  if (real::cuMemAllocManaged == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = real::cuMemAllocManaged(out, bytes, CU_MEM_ATTACH_GLOBAL);
  if (result != CUDA_SUCCESS || advise == nullptr) return result;
  static_cast<void>(advise(*out, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
  static_cast<void>(advise(*out, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
  return result;
}

/// Allocates managed memory with rows. The driver pads each row to a multiple of kGrain.
CUresult allocate_managed_rows(CUdeviceptr* out, std::size_t* pitch, std::size_t width,
                               std::size_t height, unsigned element, const Here& at) {
  if (out == nullptr || pitch == nullptr || (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t row = round_up(width);
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(row, std::uint64_t{height}, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  Charge charge(at.device, at.context, bytes, Beyond::kMaySpill);
  if (charge.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = charge.end(allocate_managed(out, bytes, at.device), out);
  if (result == CUDA_SUCCESS) *pitch = row;
  return result;
}

bool job_spills() {
  return region() != nullptr && region()->limits->devices > 0 && spills(0);
}

CUresult refuse_export(const char* function) {
  const int error = errno;
  say_once(5,
           "berth: %s called %s, which is refused in a job with --spill: memory beyond the quota "
           "cannot be exported; run it without --spill",
           who(getpid()).text, function);
  errno = error;
  return CUDA_ERROR_NOT_SUPPORTED;
}

/// Only the driver knows the pitch: charge the minimum first, and the rest when the driver has
/// returned the pitch. `spill`: allocates beyond the quota with --spill. If it is nullptr, a
/// request beyond the quota is refused.
template <typename Real, typename Free, typename Address, typename Number, typename Spill>
CUresult allocate_pitch(Real real_function, Free real_free, Address* out, Number* pitch,
                        Number width, Number height, unsigned element, Spill spill) {
  constexpr bool kSpills = !std::is_same_v<Spill, std::nullptr_t>;
  const Here at = here();
  std::uint64_t least = 0;
  if (__builtin_mul_overflow(std::uint64_t{width}, std::uint64_t{height}, &least))
    least = ~std::uint64_t{0};
  Charge charge(at.device, at.context, least, kSpills ? Beyond::kMaySpill : Beyond::kRefuse);
  if (charge.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  if constexpr (kSpills)
    if (charge.spilled()) return spill(at);
  const CUresult result = real_function(out, pitch, width, height, element);
  const std::uint64_t bytes = result == CUDA_SUCCESS ? std::uint64_t{*pitch} * height : 0;
  if (result != CUDA_SUCCESS || charge.correct(bytes)) return charge.end(result, out);
  if (real_free != nullptr) real_free(*out);
  *out = 0;
  charge.end(CUDA_ERROR_UNKNOWN, out);
  if constexpr (kSpills)
    if (spills(charge.place())) return spill(at);
  charge.refuse(bytes);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

template <typename Real>
CUresult get_pool(Real real_function, CUmemoryPool* pool, CUdevice device) {
  const CUresult result = real_function(pool, device);
  const Locked lock(g_lock);
  if (result == CUDA_SUCCESS && *pool != nullptr) g_pools.put(key_of(*pool), device);
  return result;
}

template <typename Real>
CUresult get_pool_at(Real real_function, CUmemoryPool* pool, CUmemLocation* location, int type) {
  const CUresult result = real_function(pool, location, type);
  const Locked lock(g_lock);
  if (result == CUDA_SUCCESS && *pool != nullptr)
    g_pools.put(key_of(*pool),
                location->type == CU_MEM_LOCATION_TYPE_DEVICE ? location->id : CUdevice{-1});
  return result;
}

template <typename Real>
CUresult map_array(Real real_function, void* list, unsigned count, CUstream stream) {
  const CUresult result = real_function(list, count, stream);
  if (result == CUDA_SUCCESS && region() != nullptr)
    __atomic_store_n(&region()->usage->trouble, wire::kSparseMemory, __ATOMIC_RELAXED);
  return result;
}

template <typename Real>
CUresult end_primary(Real real_function, CUdevice device, bool always) {
  const CUresult result = real_function(device);
  if (result != CUDA_SUCCESS || device < 0 || device >= static_cast<int>(wire::kMaxDevices))
    return result;
  using GetState = CUresult (*)(CUdevice, unsigned*, int*);
  const auto state = reinterpret_cast<GetState>(driver_function("cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0;
  if (!always &&
      (state == nullptr || state(device, &flags, &active) != CUDA_SUCCESS || active != 0))
    return result;
  drop_all_of(__atomic_load_n(&g_primary[device], __ATOMIC_RELAXED));
  return result;
}

std::uint64_t array_bytes(CUDA_ARRAY3D_DESCRIPTOR d, unsigned levels) {
  std::uint64_t sum = 0;
  if ((d.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) return 0;
  for (unsigned i = 0; i < levels && i < 32; ++i) {
    std::uint64_t row = 0, plane = 0, all = 0;
    if (__builtin_mul_overflow(d.Width, bytes_of_format(d.Format, d.NumChannels), &row) ||
        __builtin_mul_overflow(row, at_least_one(d.Height), &plane) ||
        __builtin_mul_overflow(plane, at_least_one(d.Depth), &all) ||
        __builtin_add_overflow(sum, round_up(all), &sum))
      return ~std::uint64_t{0};
    d.Width = at_least_one(d.Width / 2);
    d.Height /= 2;
    d.Depth /= 2;
  }
  return sum;
}

/// Shows the quota as the device's memory.
template <typename Real, typename Number>
CUresult show_quota(Real real_function, Number* free_bytes, Number* total) {
  const CUresult result = real_function(free_bytes, total);
  if (result != CUDA_SUCCESS || free_bytes == nullptr || total == nullptr) return result;
  const int place = place_of(here().device);
  if (place < 0) return result;
  // A program may wait for another process to end and then expect that the memory of that process
  // is free. So find dead processes first.
  if (wire::places_of(*region()->usage) > 1) wire::bury_the_dead(*region()->usage);
  const std::uint64_t limit = memory_limit(place), quota = quota_of(place),
                      used = wire::sum_of(*region()->usage, static_cast<std::uint32_t>(place)).used;
  const std::uint64_t left = limit > used ? limit - used : 0;
  if (*total > quota) *total = static_cast<Number>(quota);
  if (*free_bytes > left) *free_bytes = static_cast<Number>(left);
  return result;
}
template <typename Real, typename Number>
CUresult show_total(Real real_function, Number* bytes, CUdevice device) {
  const CUresult result = real_function(bytes, device);
  const int place = result == CUDA_SUCCESS && bytes != nullptr ? place_of(device) : -1;
  if (place >= 0 && *bytes > quota_of(place)) *bytes = static_cast<Number>(quota_of(place));
  return result;
}

}  // namespace

namespace {

struct Range {
  std::uint64_t address, bytes;
};
constexpr int kMostRanges = 64;

/// The largest spilled allocations of the device, the largest first. Returns how many.
int largest_spilled(int place, Range (&ranges)[kMostRanges]) {
  int count = 0;
  const Locked lock(g_lock);
  g_held.for_each([&](std::uint64_t address, const Held& held) {
    if (!held.prefetched || held.place != place) return;
    if (count == kMostRanges && ranges[count - 1].bytes >= held.bytes) return;
    int at = count < kMostRanges ? count++ : count - 1;
    for (; at > 0 && ranges[at - 1].bytes < held.bytes; --at) ranges[at] = ranges[at - 1];
    ranges[at] = {address, held.bytes};
  });
  return count;
}

CUresult prefetch(const Range& range, CUdevice device, CUstream stream) {
  if (real::cuMemPrefetchAsync != nullptr)
    return real::cuMemPrefetchAsync(range.address, range.bytes, device, stream);
  if (real::cuMemPrefetchAsync_v2 == nullptr) return CUDA_ERROR_NOT_FOUND;
  return real::cuMemPrefetchAsync_v2(range.address, range.bytes,
                                     {CU_MEM_LOCATION_TYPE_DEVICE, device}, 0, stream);
}

}  // namespace

/// If another thread has freed a range in the meantime, the driver refuses to move it.
Moved move_to_device(int place, CUdevice device, std::uint64_t most, CUstream stream) {
  Range ranges[kMostRanges];
  Moved moved = {};
  const int count = largest_spilled(place, ranges);
  for (int i = 0; i < count && moved.bytes < most; ++i) {
    const std::uint64_t left = most - moved.bytes;
    if (ranges[i].bytes > left) ranges[i].bytes = left;
    if (prefetch(ranges[i], device, stream) != CUDA_SUCCESS) continue;
    moved.bytes += ranges[i].bytes;
    ++moved.calls;
  }
  return moved;
}

void forget_memory() {
  g_held = {};
  g_mapped = {};
  g_pools = {};
  for (CUcontext& context : g_primary) context = nullptr;
  make_fresh(g_lock);
  make_fresh(g_physical);
}

}  // namespace berth::guard

using namespace berth::guard;

CUresult cuInit(unsigned flags) {
  NEED_REAL(cuInit);
  const CUresult result = real::cuInit(flags);
  if (result == CUDA_SUCCESS && must_refuse()) return CUDA_ERROR_NOT_PERMITTED;
  return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr* out, std::size_t bytes) {
  NEED_REAL(cuMemAlloc_v2);
  const Here at = here();
  Charge charge(at.device, at.context, round_up(bytes), Beyond::kMaySpill);
  if (charge.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  if (charge.spilled()) return charge.end(allocate_managed(out, bytes, at.device), out);
  return charge.end(real::cuMemAlloc_v2(out, bytes), out);
}
/// The version from before CUDA 3.2, with 32-bit addresses. The driver still has it.
CUresult cuMemAlloc(CUdeviceptr_v1* out, unsigned bytes) {
  NEED_REAL(cuMemAlloc);
  const Here at = here();
  Charge charge(at.device, at.context, round_up(bytes));
  if (charge.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  return charge.end(real::cuMemAlloc(out, bytes), out);
}
CUresult cuMemFree(CUdeviceptr_v1 address) {
  NEED_REAL(cuMemFree);
  return free_one(address, [&] { return real::cuMemFree(address); });
}
CUresult cuMemAllocManaged(CUdeviceptr* out, std::size_t bytes, unsigned flags) {
  NEED_REAL(cuMemAllocManaged);
  const Here at = here();
  Charge charge(at.device, at.context, round_up(bytes), Beyond::kMaySpill);
  if (charge.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  return charge.of_program().end(real::cuMemAllocManaged(out, bytes, flags), out);
}
CUresult cuMemAllocPitch_v2(CUdeviceptr* out, std::size_t* pitch, std::size_t width,
                            std::size_t height, unsigned element) {
  NEED_REAL(cuMemAllocPitch_v2);
  return allocate_pitch(real::cuMemAllocPitch_v2, real::cuMemFree_v2, out, pitch, width, height,
                        element, [&](const Here& at) {
                          return allocate_managed_rows(out, pitch, width, height, element, at);
                        });
}
CUresult cuMemAllocPitch(CUdeviceptr_v1* out, unsigned* pitch, unsigned width, unsigned height,
                         unsigned element) {
  NEED_REAL(cuMemAllocPitch);
  return allocate_pitch(real::cuMemAllocPitch, real::cuMemFree, out, pitch, width, height, element,
                        nullptr);
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  NEED_REAL(cuMemFree_v2);
  return free_one(address, [&] { return real::cuMemFree_v2(address); });
}
CUresult cuMemAllocAsync(CUdeviceptr* out, std::size_t bytes, CUstream stream) {
  NEED_REAL(cuMemAllocAsync);
  return allocate_async(real::cuMemAllocAsync, out, bytes, stream, stream);
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr* out, std::size_t bytes, CUstream stream) {
  NEED_REAL(cuMemAllocAsync_ptsz);
  return allocate_async(real::cuMemAllocAsync_ptsz, out, bytes, stream, per_thread(stream));
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
  NEED_REAL(cuMemAllocFromPoolAsync);
  return allocate_from_pool(real::cuMemAllocFromPoolAsync, out, bytes, pool, stream, stream);
}
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool,
                                      CUstream stream) {
  NEED_REAL(cuMemAllocFromPoolAsync_ptsz);
  return allocate_from_pool(real::cuMemAllocFromPoolAsync_ptsz, out, bytes, pool, stream,
                            per_thread(stream));
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  NEED_REAL(cuMemFreeAsync);
  return free_one(address, [&] { return real::cuMemFreeAsync(address, stream); });
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  NEED_REAL(cuMemFreeAsync_ptsz);
  return free_one(address, [&] { return real::cuMemFreeAsync_ptsz(address, stream); });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  NEED_REAL(cuDeviceGetDefaultMemPool);
  return get_pool(real::cuDeviceGetDefaultMemPool, pool, device);
}
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  NEED_REAL(cuDeviceGetMemPool);
  return get_pool(real::cuDeviceGetMemPool, pool, device);
}
CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location, int type) {
  NEED_REAL(cuMemGetDefaultMemPool);
  return get_pool_at(real::cuMemGetDefaultMemPool, pool, location, type);
}
CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, int type) {
  NEED_REAL(cuMemGetMemPool);
  return get_pool_at(real::cuMemGetMemPool, pool, location, type);
}
CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* props) {
  NEED_REAL(cuMemPoolCreate);
  const CUresult result = real::cuMemPoolCreate(pool, props);
  if (result != CUDA_SUCCESS) return result;
  const Locked lock(g_lock);
  const bool on_device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  g_pools.put(key_of(*pool), on_device ? props->location.id : -1);
  return result;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  NEED_REAL(cuMemCreate);
  const bool on_device = prop != nullptr && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  Charge charge(on_device ? prop->location.id : -1, nullptr, bytes);
  if (charge.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  const Locked lock(g_physical);
  return charge.end(real::cuMemCreate(handle, bytes, prop, flags), handle);
}
/// With --spill, refuse to export any memory: managed memory cannot be exported, and which memory
/// is managed depends on the order of requests.
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  NEED_REAL(cuIpcGetMemHandle);
  if (job_spills()) return refuse_export("cuIpcGetMemHandle");
  return real::cuIpcGetMemHandle(handle, address);
}
CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, int type,
                                      unsigned long long flags) {
  NEED_REAL(cuMemExportToShareableHandle);
  if (job_spills()) return refuse_export("cuMemExportToShareableHandle");
  return real::cuMemExportToShareableHandle(out, handle, type, flags);
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  NEED_REAL(cuMemRelease);
  const Locked physical(g_physical);
  const CUresult result = real::cuMemRelease(handle);
  Held held = {};
  if (result == CUDA_SUCCESS && drop_use(handle, held)) drop(held);
  return result;
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  NEED_REAL(cuMemRetainAllocationHandle);
  const CUresult result = real::cuMemRetainAllocationHandle(handle, address);
  if (result != CUDA_SUCCESS) return result;
  const Locked lock(g_lock);
  if (Held* held = g_held.find(*handle)) ++held->uses;
  return result;
}
CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  NEED_REAL(cuMemMap);
  const CUresult result = real::cuMemMap(address, bytes, offset, handle, flags);
  if (result != CUDA_SUCCESS) return result;
  const Locked lock(g_lock);
  if (Held* held = g_held.find(handle)) ++held->uses;
  g_mapped.put(address, {handle, bytes});
  return result;
}
/// One call may remove several adjacent mappings.
CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  NEED_REAL(cuMemUnmap);
  const Locked physical(g_physical);
  const CUresult result = real::cuMemUnmap(address, bytes);
  if (result != CUDA_SUCCESS) return result;
  for (std::uint64_t done = 0; done < bytes;) {
    Mapped mapped = {};
    {
      const Locked lock(g_lock);
      if (!g_mapped.take(address + done, mapped) || mapped.bytes == 0) return result;
    }
    Held held = {};
    if (drop_use(mapped.handle, held)) drop(held);
    done += mapped.bytes;
  }
  return result;
}

/// A sparse array keeps the memory that was mapped into it even after its handle was released.
CUresult cuMemMapArrayAsync(void* list, unsigned count, CUstream stream) {
  NEED_REAL(cuMemMapArrayAsync);
  return map_array(real::cuMemMapArrayAsync, list, count, stream);
}
CUresult cuMemMapArrayAsync_ptsz(void* list, unsigned count, CUstream stream) {
  NEED_REAL(cuMemMapArrayAsync_ptsz);
  return map_array(real::cuMemMapArrayAsync_ptsz, list, count, stream);
}

CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  NEED_REAL(cuArrayCreate_v2);
  const Here at = here();
  const std::uint64_t bytes =
      d == nullptr ? 0 : array_bytes({d->Width, d->Height, 0, d->Format, d->NumChannels, 0}, 1);
  Charge charge(at.device, at.context, bytes);
  if (charge.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  return charge.end(real::cuArrayCreate_v2(out, d), out);
}
CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR_v1* d) {
  NEED_REAL(cuArrayCreate);
  const Here at = here();
  const std::uint64_t bytes =
      d == nullptr ? 0 : array_bytes({d->Width, d->Height, 0, d->Format, d->NumChannels, 0}, 1);
  Charge charge(at.device, at.context, bytes);
  if (charge.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  return charge.end(real::cuArrayCreate(out, d), out);
}
CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR_v1* d) {
  NEED_REAL(cuArray3DCreate);
  const Here at = here();
  const std::uint64_t bytes =
      d == nullptr
          ? 0
          : array_bytes({d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags}, 1);
  Charge charge(at.device, at.context, bytes);
  if (charge.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  return charge.end(real::cuArray3DCreate(out, d), out);
}
CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  NEED_REAL(cuArray3DCreate_v2);
  const Here at = here();
  Charge charge(at.device, at.context, d == nullptr ? 0 : array_bytes(*d, 1));
  if (charge.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  return charge.end(real::cuArray3DCreate_v2(out, d), out);
}
CUresult cuArrayDestroy(CUarray array) {
  NEED_REAL(cuArrayDestroy);
  return free_one(key_of(array), [&] { return real::cuArrayDestroy(array); });
}
CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* d,
                                unsigned levels) {
  NEED_REAL(cuMipmappedArrayCreate);
  const Here at = here();
  Charge charge(at.device, at.context, d == nullptr ? 0 : array_bytes(*d, levels));
  if (charge.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  return charge.end(real::cuMipmappedArrayCreate(out, d, levels), out);
}
CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  NEED_REAL(cuMipmappedArrayDestroy);
  return free_one(key_of(array), [&] { return real::cuMipmappedArrayDestroy(array); });
}

CUresult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total) {
  NEED_REAL(cuMemGetInfo_v2);
  return show_quota(real::cuMemGetInfo_v2, free_bytes, total);
}
CUresult cuMemGetInfo(unsigned* free_bytes, unsigned* total) {
  NEED_REAL(cuMemGetInfo);
  return show_quota(real::cuMemGetInfo, free_bytes, total);
}
CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device) {
  NEED_REAL(cuDeviceTotalMem_v2);
  return show_total(real::cuDeviceTotalMem_v2, bytes, device);
}
CUresult cuDeviceTotalMem(unsigned* bytes, CUdevice device) {
  NEED_REAL(cuDeviceTotalMem);
  return show_total(real::cuDeviceTotalMem, bytes, device);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  NEED_REAL(cuCtxDestroy_v2);
  const CUresult result = real::cuCtxDestroy_v2(context);
  if (result == CUDA_SUCCESS) drop_all_of(context);
  return result;
}
CUresult cuCtxDestroy(CUcontext context) {
  NEED_REAL(cuCtxDestroy);
  const CUresult result = real::cuCtxDestroy(context);
  if (result == CUDA_SUCCESS) drop_all_of(context);
  return result;
}
/// Only the last detach destroys the context, and then it is no longer current.
CUresult cuCtxDetach(CUcontext context) {
  NEED_REAL(cuCtxDetach);
  const CUresult result = real::cuCtxDetach(context);
  if (result == CUDA_SUCCESS && current_context() != context) drop_all_of(context);
  return result;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  NEED_REAL(cuDevicePrimaryCtxRetain);
  const CUresult result = real::cuDevicePrimaryCtxRetain(context, device);
  if (result == CUDA_SUCCESS && device >= 0 && device < static_cast<int>(wire::kMaxDevices))
    __atomic_store_n(&g_primary[device], *context, __ATOMIC_RELAXED);
  return result;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  NEED_REAL(cuDevicePrimaryCtxRelease);
  return end_primary(real::cuDevicePrimaryCtxRelease, device, false);
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  NEED_REAL(cuDevicePrimaryCtxRelease_v2);
  return end_primary(real::cuDevicePrimaryCtxRelease_v2, device, false);
}
CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  NEED_REAL(cuDevicePrimaryCtxReset);
  return end_primary(real::cuDevicePrimaryCtxReset, device, true);
}
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  NEED_REAL(cuDevicePrimaryCtxReset_v2);
  return end_primary(real::cuDevicePrimaryCtxReset_v2, device, true);
}
