// The memory pool of a device, for berth/kernels.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels_backend.hpp"

namespace berth {

/// How much memory the pool of a device has, and how it was used.
struct PoolStatistics {
  std::size_t used_bytes = 0;  ///< bytes in existing buffers
  std::size_t free_bytes = 0;  ///< bytes that the pool keeps for later buffers
  long allocations = 0;        ///< how often the driver was asked for memory
  long reuses = 0;             ///< how often a buffer got memory from the pool
};

namespace detail {

/// A device with its pool.
struct ComputeState {
  std::shared_ptr<ComputeDevice> device;
  std::mutex mutex;
  std::multimap<std::size_t, void*> free;  // unused memory, by capacity
  PoolStatistics pool;

  explicit ComputeState(std::shared_ptr<ComputeDevice> of) : device(std::move(of)) {}
  ComputeState(const ComputeState&) = delete;
  ComputeState& operator=(const ComputeState&) = delete;
  ~ComputeState() { trim(); }

  void trim() {
    for (const auto& [capacity, memory] : free) device->release(memory);
    free.clear();
    pool.free_bytes = 0;
  }

  /// Returns memory of exactly this capacity, from the pool or from the driver. The caller must
  /// hold the mutex.
  Result<void*> take(std::size_t capacity) {
    if (const auto found = free.find(capacity); found != free.end()) {
      void* const memory = found->second;
      free.erase(found);
      pool.free_bytes -= capacity;
      pool.used_bytes += capacity;
      ++pool.reuses;
      return memory;
    }
    auto memory = device->allocate(capacity);
    if (!memory && !free.empty()) {  // the driver has no memory left, but memory that the pool
                                     // keeps may be enough
      trim();
      memory = device->allocate(capacity);
    }
    if (!memory) return memory;
    pool.used_bytes += capacity;
    ++pool.allocations;
    return memory;
  }

  void give_back(void* memory, std::size_t capacity) {
    const std::lock_guard<std::mutex> lock(mutex);
    free.emplace(capacity, memory);
    pool.used_bytes -= capacity;
    pool.free_bytes += capacity;
  }
};

/// The capacity to allocate for a size. Similar sizes have the same capacity, so that later buffers
/// can reuse the memory.
inline std::size_t capacity_for(std::size_t bytes) {
  constexpr std::size_t kLeast = 256, kStep = std::size_t{1} << 20;
  if (bytes > kStep) return bytes > SIZE_MAX - kStep ? bytes : (bytes + kStep - 1) / kStep * kStep;
  std::size_t capacity = kLeast;
  while (capacity < bytes) capacity *= 2;
  return capacity;
}

}  // namespace detail

}  // namespace berth
