// Shared state of the CUDA devices in a simulation (BERTH_SIM_DIR/cuda): each process's memory on
// each device, and the work on each device. One lock protects it. If the lock's holder dies, the
// kernel releases the lock.
#pragma once

#include <pthread.h>
#include <string.h>

#include <cstddef>
#include <cstdint>

#include "wire/process_key.hpp"
#include "wire/robust_lock.hpp"

namespace berth::wire::sim {

inline constexpr std::uint64_t kCudaMagic = 0x4144554348545242;  // "BRTHCUDA"
inline constexpr std::uint32_t kCudaVersion = 4, kCudaDevices = 16, kCudaProcesses = 512,
                               kCudaMarks = 256, kCudaLimits = 32, kCudaGroup = 256;

/// A mark at a position in a queue, to find out when the work before it is done.
struct CudaMark {
  std::uint64_t at;  // amount of work before the mark, in nanoseconds since the queue began
  // when this work was done, in nanoseconds of CLOCK_MONOTONIC; 0 if it is not done
  std::uint64_t when;
};

/// Data for NVML's utilization: the number of the newest sample period with work, and the busy
/// nanoseconds in it and in the period before.
struct CudaSamples {
  std::uint64_t newest, busy, before;
};

/// The work of one process on one device. It is done in order.
struct CudaQueue {
  std::uint64_t submitted, done;  // nanoseconds of work, in all and already done
  CudaSamples samples;            // of this process only
  std::uint64_t kernels;  // nanoseconds of `submitted` that are kernels, not copies or fills
  std::uint64_t marks_made, marks_known;  // number of marks; mark N is in marks[N % kCudaMarks]
  CudaMark marks[kCudaMarks];
};

struct CudaProcess {
  std::int64_t pid;  // 0 means that this entry is free
  std::uint64_t start;
  std::uint64_t used[kCudaDevices];  // bytes of memory on each device
  std::uint64_t contexts[kCudaDevices];
  CudaQueue queue[kCudaDevices];
  char group[kCudaGroup];  // path of its control group (v2) below the mount; "" if not known
};

/// A memory limit for the processes of a control group on one device, as
/// nvmlDeviceSetMemoryLimits_v1() sets it. Write the last field last.
struct CudaLimit {
  std::uint64_t soft, hard;  // bytes
  std::uint32_t device;
  char group[kCudaGroup];  // full path of the group in sysfs
  std::uint32_t holds;     // 0 means that this entry is free
};

struct CudaDevice {
  std::uint64_t room;   // bytes that CUDA can allocate
  std::uint64_t clock;  // time up to which the work on this device is computed
  std::uint64_t busy;   // nanoseconds in which the device worked
  CudaSamples samples;  // of all processes together
};

struct CudaShared {
  std::uint64_t magic;
  std::uint32_t version, devices;
  alignas(64) unsigned char lock[64];  // holds a robust pthread_mutex_t
  std::uint32_t processes;             // number of entries that were ever used
  std::uint32_t unused;
  std::uint64_t looked;  // when dead processes were last searched
  CudaDevice device[kCudaDevices];
  CudaProcess process[kCudaProcesses];
  CudaLimit limit[kCudaLimits];
};
static_assert(offsetof(CudaShared, lock) == 64 && offsetof(CudaShared, processes) == 128 &&
              offsetof(CudaShared, device) == 144);
static_assert(sizeof(pthread_mutex_t) <= 64);

inline pthread_mutex_t* lock_of(CudaShared& shared) {
  return reinterpret_cast<pthread_mutex_t*>(shared.lock);
}

/// Initialises the state. `berth sim` calls it once, on zeroed memory.
inline bool begin_cuda(CudaShared& shared, std::uint32_t devices) {
  const bool made = begin_lock(*lock_of(shared));
  shared.devices = devices < kCudaDevices ? devices : kCudaDevices;
  shared.version = kCudaVersion;
  shared.magic = kCudaMagic;
  return made;
}

/// Holds the lock of the state. Every write is a single word, so the state stays valid if the
/// holder dies.
class CudaLock : public RobustLock {
 public:
  explicit CudaLock(CudaShared& shared) : RobustLock(*lock_of(shared)) {}
};

/// Frees the memory of dead processes. For this function and all below, the caller must hold the
/// lock.
inline void bury_the_dead(CudaShared& shared) {
  for (std::uint32_t i = 0; i < shared.processes; ++i) {
    CudaProcess& process = shared.process[i];
    if (process.pid == 0 || lives(process.pid, process.start)) continue;
    for (std::uint32_t d = 0; d < kCudaDevices; ++d) {
      process.used[d] = process.contexts[d] = 0;
      process.queue[d].submitted = process.queue[d].done;
    }
    process.pid = 0;
  }
}

inline constexpr std::uint64_t kLookEvery = 5'000'000;  // in nanoseconds
inline void bury_now_and_then(CudaShared& shared, std::uint64_t now) {
  if (now - shared.looked < kLookEvery) return;
  shared.looked = now;
  bury_the_dead(shared);
}

inline std::uint64_t cuda_memory_used(const CudaShared& shared, std::uint32_t device) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < shared.processes; ++i) sum += shared.process[i].used[device];
  return sum;
}

/// Whether the process is in the limited control group, or in a group below it. The process knows
/// its group's path below the mount; the limit has the full path.
inline bool is_limited(const CudaLimit& limit, const CudaProcess& process) {
  const std::size_t length = strnlen(process.group, kCudaGroup),
                    whole = strnlen(limit.group, kCudaGroup);
  for (std::size_t end = length; end > 1; --end) {
    if (end != length && process.group[end] != '/') continue;
    if (end <= whole && memcmp(limit.group + whole - end, process.group, end) == 0) return true;
  }
  return false;
}

inline std::uint64_t used_under(const CudaShared& shared, const CudaLimit& limit) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < shared.processes; ++i)
    if (shared.process[i].pid != 0 && is_limited(limit, shared.process[i]))
      sum += shared.process[i].used[limit.device];
  return sum;
}

/// Whether the limits of its control groups let the process use `more` bytes.
inline bool may_have(const CudaShared& shared, const CudaProcess& process, std::uint32_t device,
                     std::uint64_t bytes) {
  for (const CudaLimit& limit : shared.limit) {
    if (limit.holds == 0 || limit.device != device || !is_limited(limit, process)) continue;
    const std::uint64_t used = used_under(shared, limit);
    if (bytes > limit.hard || used > limit.hard - bytes) return false;
  }
  return true;
}

inline std::uint32_t working(const CudaShared& shared, std::uint32_t device, std::uint64_t& least) {
  std::uint32_t n = 0;
  least = ~std::uint64_t{0};
  for (std::uint32_t i = 0; i < shared.processes; ++i) {
    const CudaQueue& queue = shared.process[i].queue[device];
    const std::uint64_t left = queue.submitted - queue.done;
    if (left == 0) continue;
    ++n;
    least = left < least ? left : least;
  }
  return n;
}

inline void complete(CudaQueue& queue, std::uint64_t work, std::uint64_t since, std::uint32_t of) {
  const std::uint64_t before = queue.done;
  queue.done += work;
  while (queue.marks_known < queue.marks_made) {
    CudaMark& mark = queue.marks[queue.marks_known % kCudaMarks];
    if (mark.at > queue.done) break;
    mark.when = since + (mark.at > before ? (mark.at - before) * of : 0);
    ++queue.marks_known;
  }
}

/// The length of NVML's sample period for the utilization, in nanoseconds.
inline constexpr std::uint64_t kCudaSample = 166'666'667;

/// The part of a queue's work that consists of kernels, in thousandths. NVML's utilization does not
/// count copies.
inline std::uint64_t kernels_in(const CudaQueue& queue) {
  const std::uint64_t all = queue.submitted / 1000 + 1, part = queue.kernels / all;
  return part < 1000 ? part : 1000;
}

/// Adds work from the time `from` to the time `to`. Calls must be in order of time. `permille`
/// tells which part of this time kernels ran.
inline void add_busy(CudaSamples& samples, std::uint64_t from, std::uint64_t to,
                     std::uint64_t permille) {
  const std::uint64_t newest = (to - 1) / kCudaSample, begin = newest * kCudaSample;
  if (samples.newest != newest) {
    samples.before = samples.newest + 1 == newest ? samples.busy : 0;
    samples.busy = 0;
    samples.newest = newest;
  }
  samples.busy += (to - (from > begin ? from : begin)) * permille / 1000;
  const std::uint64_t earlier = begin > kCudaSample ? begin - kCudaSample : 0;
  if (from < begin) samples.before += (begin - (from > earlier ? from : earlier)) * permille / 1000;
}

/// In which percentage of the last complete sample period kernels ran.
inline std::uint32_t cuda_utilization(const CudaSamples& samples, std::uint64_t now) {
  const std::uint64_t sample = now / kCudaSample;
  const std::uint64_t busy = sample == samples.newest       ? samples.before
                             : sample == samples.newest + 1 ? samples.busy
                                                            : 0;
  return static_cast<std::uint32_t>(busy * 100 / kCudaSample);
}

/// Does the work of the device until `now`. All processes with work get equal parts of its time, as
/// if they took turns of a few milliseconds.
inline void work_until(CudaShared& shared, std::uint32_t device, std::uint64_t now) {
  CudaDevice& engine = shared.device[device];
  while (engine.clock < now) {
    std::uint64_t least = 0;
    const std::uint32_t n = working(shared, device, least);
    if (n == 0) {
      engine.clock = now;
      return;
    }
    const std::uint64_t fair = (now - engine.clock) / n, work = fair < least ? fair : least;
    if (work == 0) return;
    std::uint64_t kernels = 0;
    for (std::uint32_t i = 0; i < shared.processes; ++i) {
      CudaQueue& queue = shared.process[i].queue[device];
      if (queue.submitted == queue.done) continue;
      const std::uint64_t permille = kernels_in(queue);
      kernels += permille;
      add_busy(queue.samples, engine.clock, engine.clock + work * n, permille / n);
      complete(queue, work, engine.clock, n);
    }
    add_busy(engine.samples, engine.clock, engine.clock + work * n, kernels / n);
    engine.clock += work * n;
    engine.busy += work * n;
  }
}

/// Adds a mark after all work in the queue. Returns false if too many marks are not done yet.
inline bool make_mark(CudaQueue& queue, std::uint64_t now, std::uint64_t& number) {
  if (queue.marks_made - queue.marks_known >= kCudaMarks) return false;
  number = queue.marks_made;
  queue.marks[number % kCudaMarks] = {queue.submitted,
                                      queue.submitted == queue.done ? now : std::uint64_t{0}};
  ++queue.marks_made;
  if (queue.submitted == queue.done) queue.marks_known = queue.marks_made;
  return true;
}

}  // namespace berth::wire::sim
