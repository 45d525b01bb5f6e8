// What the guard's libraries share to count memory and work: a lock, keys of their tables, and the
// process's counters.
#pragma once

#include <pthread.h>

#include "preload/region.hpp"

namespace berth::guard {

class Locked {
 public:
  explicit Locked(pthread_mutex_t& lock) : lock_(lock) { pthread_mutex_lock(&lock_); }
  ~Locked() { pthread_mutex_unlock(&lock_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t& lock_;
};
/// Resets a lock in a child after fork(), because another thread of the parent may have held it.
inline void make_fresh(pthread_mutex_t& lock) {
  const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
  lock = fresh;
}

inline std::uint64_t key_of(const void* handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}
inline std::uint64_t key_of(std::uint64_t address) {
  return address;
}
constexpr std::uint64_t at_least_one(std::uint64_t n) {
  return n == 0 ? 1 : n;
}

/// This process's counters of a device. Call it only if there is a region.
inline wire::Counters& counters(int place) {
  return region()->process->device[place];
}
inline void count(std::uint64_t& word, std::uint64_t by = 1) {
  __atomic_fetch_add(&word, by, __ATOMIC_RELAXED);
}

/// What was sent: a kernel or graph, a copy to, from or on the device, a copy whose direction the
/// call does not say, or a fill.
enum class Work { kLaunch, kCopyIn, kCopyOut, kCopyOn, kCopyOther, kFill };
inline void count_work(wire::Counters& own, Work work, std::uint64_t bytes) {
  switch (work) {
    case Work::kLaunch:
      return count(own.launches);
    case Work::kFill:
      count(own.fills);
      return count(own.filled, bytes);
    case Work::kCopyIn:
      count(own.copied_in, bytes);
      break;
    case Work::kCopyOut:
      count(own.copied_out, bytes);
      break;
    case Work::kCopyOn:
      count(own.copied_on, bytes);
      break;
    case Work::kCopyOther:
      count(own.copied_other, bytes);
      break;
  }
  count(own.copies);
}

}  // namespace berth::guard
