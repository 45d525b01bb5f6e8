// The files that a guarded job and `berth run` share (docs/guard.md), in a folder that only the
// user may enter. `limits` is a link to memory of `berth run` that no other process can write
// (decision 26); the guard maps it read-only. In `usage`, each process of the job writes to its own
// place. There are no locks, because a process may die at any instruction. Sums only include living
// processes, so the usage of a dead process no longer counts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/process_key.hpp"

namespace berth::wire::guard {

inline constexpr std::uint64_t kLimitsMagic = 0x54494d494c545242;  // "BRTLIMIT"
inline constexpr std::uint64_t kWantedMagic = 0x544e415754545242;  // "BRTTWANT"
inline constexpr std::uint64_t kUsageMagic = 0x4547415355545242;   // "BRTUSAGE"
inline constexpr std::uint32_t kVersion = 3;
inline constexpr std::uint32_t kMaxDevices = 16, kMaxProcesses = 512;
inline constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

struct DeviceLimit {
  unsigned char uuid[16];  // uuid as cuDeviceGetUuid() returns it; with kNamedDevice, two numbers
  std::uint64_t memory_bytes;  // memory limit; kNoLimit if there is none
  std::uint32_t permille;      // share of the device's time in thousandths; 0 if none was requested
  std::uint32_t flags;         // Flag
  std::uint64_t
      hidden_bytes;  // memory of the job that its counters do not contain: CUDA contexts, modules
  // largest share of the device's time in thousandths; 0 if there is no such limit
  std::uint32_t cap;
  std::uint32_t slice;  // length of a turn in milliseconds; 0 means the default
  std::uint64_t pci;    // pci_word() of the device; 0 if not known
};
enum Flag : std::uint32_t {
  kLatency = 1,     // turns of this job come before those of other jobs
  kBestEffort = 2,  // this job gets only the time that no other job uses
  kKeepsTurn = 4,   // a short pause does not end the job's turn
  // The device has neither a uuid nor a PCI address. `uuid` then holds two numbers: name_word() of
  // its OpenCL name, and its position among devices with this name.
  kNamedDevice = 8,
  kSpill = 16,  // memory beyond the quota is allocated as managed memory
};
inline constexpr std::uint32_t kTurnFlags = kLatency | kBestEffort | kKeepsTurn;
static_assert(offsetof(DeviceLimit, memory_bytes) == 16 && sizeof(DeviceLimit) == 56);

struct Limits {
  std::uint64_t magic;
  std::uint32_t version, devices;
  std::uint64_t job;
  std::uint64_t answered;  // the last Wanted::request that `berth run` has handled
  std::uint64_t unused[4];
  DeviceLimit device[kMaxDevices];
};
static_assert(offsetof(Limits, device) == 64 && sizeof(Limits) == 64 + 56 * kMaxDevices);

/// A request of `berth resize` to the `berth run` of a job, in a file in the job's folder. The
/// value 0 means no change.
struct Wanted {
  std::uint64_t magic;
  std::uint32_t version, permille;
  std::uint64_t memory_bytes, request;
};
static_assert(sizeof(Wanted) == 32);

/// What one process uses on one device.
struct Counters {
  std::uint64_t used;   // bytes, including allocations that are in progress
  std::uint64_t asked;  // bytes of `used` for allocations in progress, which may still be refused
  std::uint64_t peak;   // largest `used` so far
  std::uint64_t allocations, frees, refusals;
  std::uint64_t launches, copies;
  std::uint64_t busy;  // nanoseconds of device time
  // The bytes that `copies` moved: to the device, from it, on it or between devices, in an unknown
  // direction.
  std::uint64_t copied_in, copied_out, copied_on, copied_other;
  std::uint64_t fills, filled;  // number of fills, and the bytes they wrote
  // Memory from stream-ordered allocations: now, and the largest amount so far. The driver may keep
  // the difference for later allocations.
  std::uint64_t pooled, pooled_peak;
  // Managed memory beyond the quota. spilled: that of this process now. spilled_peak: the most that
  // the whole job had when this process allocated memory.
  std::uint64_t spilled, spilled_peak;
  // When a turn began, spilled memory was prefetched to the device: how often, how many bytes, and
  // nanoseconds of device time.
  std::uint64_t prefetches, prefetched, prefetching;
  // nanoseconds that this process waited for a turn of another job to end
  std::uint64_t waited;
  std::uint64_t unused[1];
};
static_assert(sizeof(Counters) == 192);

enum State : std::uint32_t { kFree = 0, kTaken = 1, kLives = 2, kDead = 3 };
struct Process {
  std::uint64_t start;
  std::int64_t pid;
  std::uint32_t state;
  std::uint32_t unused[11];
  Counters device[kMaxDevices];
};
static_assert(offsetof(Process, device) == 64 && sizeof(Process) == 64 + 192 * kMaxDevices);

enum Trouble : std::uint32_t {
  kNoTrouble = 0,
  kNoPlace = 1,
  kGraphMemory = 2,
  kSparseMemory = 3,   // memory may remain in a sparse array after its handle was released
  kUnknownMemory = 4,  // the program found a function that may allocate memory: `unknown_name`
  kOpenClTime = 5,     // the job has a share, but its OpenCL commands cannot take turns
  kUnknownDevice = 6,  // OpenCL does not tell which GPU its device is
};

struct Usage {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t places;  // number of entries that were ever used
  std::uint64_t reserved;
  // for each device, the largest sum over the job's processes so far
  std::uint64_t peak[kMaxDevices];
  std::uint32_t started;    // number of processes that loaded the guard and initialised CUDA
  std::uint32_t trouble;    // a value of enum Trouble: what the guard could not enforce
  std::uint32_t unlimited;  // number of processes that could not read the limits
  std::uint32_t unused[7];
  std::uint32_t names;    // 1 if a process writes or has written unknown_name
  char unknown_name[60];  // may have no terminating 0
  Process process[kMaxProcesses];
};
static_assert(offsetof(Usage, peak) == 24 && offsetof(Usage, process) == 256);

/// A PCI address as a number, which is never 0.
inline std::uint64_t pci_word(std::uint64_t domain, std::uint64_t bus, std::uint64_t slot,
                              std::uint64_t function) {
  return std::uint64_t{1} << 63U | domain << 16U | (bus & 0xffU) << 8U | (slot & 0x1fU) << 3U |
         (function & 7U);
}
/// A hash (FNV-1a) of a device's name, without spaces at both ends.
inline std::uint64_t name_word(const char* text, std::size_t length) {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (length > 0 && is_space(text[length - 1])) --length;
  std::size_t at = 0;
  while (at < length && is_space(text[at])) ++at;
  std::uint64_t word = 0xcbf29ce484222325;
  for (; at < length; ++at) word = (word ^ static_cast<unsigned char>(text[at])) * 0x100000001b3;
  return word;
}

/// Whether all values are within bounds. Another process wrote them, so they are not trusted.
inline bool valid(const Limits& limits) {
  return limits.magic == kLimitsMagic && limits.version == kVersion &&
         limits.devices <= kMaxDevices;
}
inline bool valid(const Wanted& wanted) {
  return wanted.magic == kWantedMagic && wanted.version == kVersion;
}
inline bool valid(const Usage& usage) {
  return usage.magic == kUsageMagic && usage.version == kVersion;
}

inline std::uint64_t read_word(const std::uint64_t& word) {
  return __atomic_load_n(&word, __ATOMIC_SEQ_CST);
}
inline void add_word(std::uint64_t& word, std::uint64_t by) {
  __atomic_fetch_add(&word, by, __ATOMIC_SEQ_CST);
}
inline void take_word(std::uint64_t& word, std::uint64_t by) {
  __atomic_fetch_sub(&word, by, __ATOMIC_SEQ_CST);
}
inline void raise_word(std::uint64_t& word, std::uint64_t to) {
  std::uint64_t was = __atomic_load_n(&word, __ATOMIC_RELAXED);
  while (was < to &&
         !__atomic_compare_exchange_n(&word, &was, to, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}
inline std::uint32_t places_of(const Usage& usage) {
  const std::uint32_t n = __atomic_load_n(&usage.places, __ATOMIC_ACQUIRE);
  return n < kMaxProcesses ? n : kMaxProcesses;
}

struct Sum {
  std::uint64_t used = 0, asked = 0;
};
inline Sum sum_of(const Usage& usage, std::uint32_t device) {
  Sum sum;
  const std::uint32_t places = places_of(usage);
  for (std::uint32_t i = 0; i < places; ++i) {
    const Process& process = usage.process[i];
    if (__atomic_load_n(&process.state, __ATOMIC_SEQ_CST) != kLives) continue;
    sum.asked += read_word(process.device[device].asked);
    sum.used += read_word(process.device[device].used);
  }
  return sum;
}

/// The managed memory beyond the quota that the living processes have.
inline std::uint64_t spilled_of(const Usage& usage, std::uint32_t device) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < places_of(usage); ++i)
    if (__atomic_load_n(&usage.process[i].state, __ATOMIC_SEQ_CST) == kLives)
      sum += read_word(usage.process[i].device[device].spilled);
  return sum;
}

/// The memory of the living processes, to be compared with the driver's figures.
struct Tally {
  std::uint64_t used = 0;
  std::uint64_t kept = 0;  // at most this much freed memory is still kept by the driver for streams
  std::uint64_t spilled = 0;  // memory beyond the quota; some or all of it may be on the device
  std::uint64_t events = 0;   // increases with each allocation and each free
  std::uint32_t processes = 0;
};
inline Tally tally_of(const Usage& usage, std::uint32_t device) {
  Tally tally;
  for (std::uint32_t i = 0; i < places_of(usage); ++i) {
    const Process& process = usage.process[i];
    const Counters& own = process.device[device];
    if (__atomic_load_n(&process.state, __ATOMIC_SEQ_CST) != kLives) continue;
    ++tally.processes;
    tally.used += read_word(own.used);
    tally.kept += own.pooled_peak > own.pooled ? own.pooled_peak - own.pooled : 0;
    tally.spilled += read_word(own.spilled);
    tally.events += own.allocations + own.frees;
  }
  return tally;
}

/// Marks places of dead processes, so that their memory no longer counts. Their counters stay for
/// the report.
inline void bury_the_dead(Usage& usage) {
  const std::uint32_t places = places_of(usage);
  for (std::uint32_t i = 0; i < places; ++i) {
    Process& process = usage.process[i];
    std::uint32_t state = __atomic_load_n(&process.state, __ATOMIC_ACQUIRE);
    const bool is_dead = state == kLives ? !lives(process.pid, process.start) : is_abandoned(state);
    if (!is_dead) continue;
    __atomic_compare_exchange_n(&process.state, &state, kDead, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_RELAXED);
  }
}

/// Takes a place in the table for this process. Returns nullptr if 512 processes are alive.
inline Process* take_place(Usage& usage, std::int64_t pid) {
  const std::uint64_t start = stat_of(pid).start;
  bury_the_dead(usage);
  for (int turn = 0; turn < 2; ++turn) {
    for (std::uint32_t i = 0; i < kMaxProcesses; ++i) {
      Process& process = usage.process[i];
      // First look only for free places. The counters of dead processes are needed for the report,
      // so overwrite them last.
      std::uint32_t state = turn == 0 ? kFree : kDead;
      if (__atomic_load_n(&process.state, __ATOMIC_ACQUIRE) != state) continue;
      raise_count(usage.places, i + 1);
      if (!__atomic_compare_exchange_n(&process.state, &state, taken_by(pid), false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        continue;
      process.pid = pid;
      process.start = start;
      for (Counters& counters : process.device)
        counters.used = counters.asked = counters.pooled = counters.pooled_peak = counters.spilled =
            0;
      __atomic_store_n(&process.state, kLives, __ATOMIC_SEQ_CST);
      return &process;
    }
    bury_the_dead(usage);
  }
  return nullptr;
}

enum class Answer { kGranted, kOverQuota };

/// Reserves memory first, and then checks the sum. If two processes race, the later one sees both
/// reservations, so the sum of granted memory never exceeds the limit. If only pending requests of
/// others are in the way, tries again.
inline Answer charge(Usage& usage, Counters& own, std::uint32_t device, std::uint64_t bytes,
                     std::uint64_t limit) {
  if (bytes > limit) return Answer::kOverQuota;
  for (std::uint32_t turn = 0;; ++turn) {
    add_word(own.asked, bytes);
    add_word(own.used, bytes);
    const Sum sum = sum_of(usage, device);
    if (sum.used <= limit) {
      take_word(own.asked, bytes);
      raise_word(own.peak, __atomic_load_n(&own.used, __ATOMIC_RELAXED));
      raise_word(usage.peak[device], sum.used);
      return Answer::kGranted;
    }
    take_word(own.used, bytes);
    take_word(own.asked, bytes);
    // True if only pending requests of other processes keep this request from fitting.
    const bool blocked = sum.used - (sum.asked < sum.used ? sum.asked : sum.used) + bytes <= limit;
    if (turn == 0) bury_the_dead(usage);
    if (turn > 0 && (!blocked || turn > 200)) return Answer::kOverQuota;
    for (std::uint32_t wait = 0; wait < (turn & 15U) * 37; ++wait)
      __asm__ volatile("" ::: "memory");
  }
}

inline void give_back(Counters& own, std::uint64_t bytes) {
  take_word(own.used, bytes);
}

}  // namespace berth::wire::guard
