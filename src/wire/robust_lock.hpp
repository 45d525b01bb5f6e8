// A lock in memory that several processes share. If its holder dies, the kernel releases it.
#pragma once

#include <errno.h>
#include <pthread.h>

namespace berth::wire {

/// Initialises the lock. Call it once, on zeroed memory.
inline bool begin_lock(pthread_mutex_t& lock) {
  pthread_mutexattr_t kind;
  if (pthread_mutexattr_init(&kind) != 0) return false;
  const bool made = pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED) == 0 &&
                    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST) == 0 &&
                    pthread_mutex_init(&lock, &kind) == 0;
  pthread_mutexattr_destroy(&kind);
  return made;
}

/// Holds the lock during its lifetime. The process may die between two writes, so the shared data
/// must be valid after each write.
class RobustLock {
 public:
  explicit RobustLock(pthread_mutex_t& lock) : lock_(lock) {
    if (pthread_mutex_lock(&lock_) == EOWNERDEAD) pthread_mutex_consistent(&lock_);
  }
  ~RobustLock() { pthread_mutex_unlock(&lock_); }
  RobustLock(const RobustLock&) = delete;
  RobustLock& operator=(const RobustLock&) = delete;

 private:
  pthread_mutex_t& lock_;
};

}  // namespace berth::wire
