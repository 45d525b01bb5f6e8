// Device time. If the job has a share, its processes send work only during their turn on the
// device; they wait inside the program's call. Work in flight is limited, so that a turn ends soon
// after its quantum: within a fraction of a millisecond or one kernel.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/cuda/hooks.hpp"
#include "preload/ledger.hpp"
#include "wire/turns.hpp"

namespace berth::guard {
namespace {

namespace turns = berth::wire::turns;

constexpr std::uint64_t kMillisecond = 1'000'000, kQuantum = 20 * kMillisecond,
                        kInFlight = 2 * kMillisecond, kIdle = kMillisecond,
                        kBorrowed = 2 * kMillisecond, kAway = 100 * kMillisecond, kWhole = 1000,
                        kOverCap = 10 * kMillisecond;
// The weight of a job that takes turns but has no share.
constexpr std::uint32_t kSmallWeight = 100;

/// This process on one device. Everything except `left` is written with the lock held.
struct Gate {
  turns::Turns* shared;
  turns::Place* own;
  std::uint32_t number;     // place + 1
  int state;                // 1: has a share, -1: has none, 0: not checked yet
  std::int64_t left;        // calls until the next look at the clock
  std::uint64_t batch;      // initial value of `left`
  std::uint64_t turn_ends;  // 0: not our turn
  std::uint64_t quantum;
  std::uint64_t cap;                  // permille; 0: none
  std::uint64_t cap_since, cap_used;  // device time since then
  std::uint64_t each;       // estimated duration of a call in nanoseconds; 0: unknown
  std::uint64_t in_batch;   // calls between base and mark
  CUevent base, mark,
      spare;          // time before `base` is counted; `mark` follows a batch that may still run
  CUevent tail;       // follows everything sent before the program began to wait
  CUstream last;      // stream of the newest work
  bool marked, open;  // marked: mark is set; open: base was recorded
  bool tailed;        // tail was recorded and nothing was sent since
};
constinit Gate g_gates[wire::kMaxDevices] = {};
constinit std::uint32_t g_changes = 0;  // number of destroyed contexts; an address may be reused
constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

struct Driver {
  CUresult (*event_create)(CUevent*, unsigned);
  CUresult (*event_record)(CUevent, CUstream);
  CUresult (*event_elapsed)(float*, CUevent, CUevent);
  CUresult (*event_query)(CUevent);
  CUresult (*is_capturing)(CUstream, int*);
};
const Driver& driver() {
  static const Driver all = {
      reinterpret_cast<decltype(Driver::event_create)>(driver_function("cuEventCreate")),
      reinterpret_cast<decltype(Driver::event_record)>(driver_function("cuEventRecord")),
      reinterpret_cast<decltype(Driver::event_elapsed)>(driver_function("cuEventElapsedTime")),
      reinterpret_cast<decltype(Driver::event_query)>(driver_function("cuEventQuery")),
      reinterpret_cast<decltype(Driver::is_capturing)>(driver_function("cuStreamIsCapturing"))};
  return all;
}

turns::Turns* map_turns(const wire::DeviceLimit& device) {
  const char* folder = getenv("BERTH_GUARD");  // NOLINT(concurrency-mt-unsafe)
  char path[4096], hex[33] = {};
  for (int i = 0; i < 16; ++i) snprintf(hex + 2 * i, 3, "%02x", device.uuid[i]);
  if (folder == nullptr || snprintf(path, sizeof(path), "%s/turns-%s", folder, hex) < 0)
    return nullptr;
  const int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return nullptr;
  const bool whole = lseek(file, 0, SEEK_END) >= static_cast<off_t>(sizeof(turns::Turns));
  void* where =
      whole ? mmap(nullptr, sizeof(turns::Turns), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
            : MAP_FAILED;
  close(file);
  if (where == MAP_FAILED) return nullptr;
  auto* shared = static_cast<turns::Turns*>(where);
  return shared->magic == turns::kMagic && shared->version == turns::kVersion ? shared : nullptr;
}

std::uint32_t state_of(const turns::Place& place) {
  return __atomic_load_n(&place.state, __ATOMIC_ACQUIRE);
}
std::uint32_t places_of(const turns::Turns& shared) {
  const std::uint32_t n = __atomic_load_n(&shared.places, __ATOMIC_ACQUIRE);
  return n < turns::kPlaces ? n : turns::kPlaces;
}

void bury(turns::Turns& shared) {
  for (std::uint32_t i = 0; i < places_of(shared); ++i) {
    turns::Place& place = shared.place[i];
    std::uint32_t state = state_of(place);
    const bool is_dead = state == turns::kLives ? !berth::wire::lives(place.pid, place.start)
                                                : berth::wire::is_abandoned(state);
    if (!is_dead) continue;
    __atomic_compare_exchange_n(&place.state, &state, turns::kFree, false, __ATOMIC_ACQ_REL,
                                __ATOMIC_RELAXED);
  }
}

/// The least device time that an active process of the class has had. A new or returning process
/// starts with this value, so that idle time earns no credit.
std::uint64_t least_had(const turns::Turns& shared, const turns::Place* own) {
  std::uint64_t least = ~std::uint64_t{0};
  for (std::uint32_t i = 0; i < places_of(shared); ++i) {
    const turns::Place& place = shared.place[i];
    const bool active = __atomic_load_n(&place.waiting, __ATOMIC_RELAXED) != 0 ||
                        __atomic_load_n(&shared.holder, __ATOMIC_RELAXED) == i + 1;
    if (&place == own || place.rank != own->rank || state_of(place) != turns::kLives || !active)
      continue;
    const std::uint64_t had = __atomic_load_n(&place.had, __ATOMIC_RELAXED);
    least = had < least ? had : least;
  }
  return least == ~std::uint64_t{0} ? 0 : least;
}

void join(Gate& gate, const wire::DeviceLimit& limit) {
  turns::Turns& shared = *gate.shared;
  bury(shared);
  for (std::uint32_t i = 0; i < turns::kPlaces; ++i) {
    turns::Place& place = shared.place[i];
    std::uint32_t state = turns::kFree;
    if (state_of(place) != state) continue;
    berth::wire::raise_count(shared.places, i + 1);
    if (!__atomic_compare_exchange_n(&place.state, &state, berth::wire::taken_by(getpid()), false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      continue;
    place.pid = getpid();
    place.start = berth::wire::stat_of(place.pid).start;
    place.weight = limit.permille > 0 ? limit.permille : kSmallWeight;
    place.rank = (limit.flags & wire::kLatency) != 0      ? turns::kLatency
                 : (limit.flags & wire::kBestEffort) != 0 ? turns::kBestEffort
                                                          : turns::kNormal;
    place.job = static_cast<std::uint32_t>(region()->limits->job);
    place.idle = (limit.flags & wire::kKeepsTurn) != 0 ? 1000 : 1;
    place.waiting = 0;
    place.busy_until = 0;
    place.had = least_had(shared, &place);
    __atomic_store_n(&place.state, turns::kLives, __ATOMIC_RELEASE);
    gate.own = &place;
    gate.number = i + 1;
    return;
  }
}

bool make_events(Gate& gate) {
  const Driver& calls = driver();
  if (calls.event_create == nullptr) return false;
  CUevent* const all[] = {&gate.base, &gate.mark, &gate.spare, &gate.tail};
  for (CUevent* event : all)
    if (calls.event_create(event, 0) != CUDA_SUCCESS) return false;
  return true;
}

/// Call it with the lock held. False: the job has no share of this device, or it cannot be
/// enforced.
bool begin_gate(Gate& gate, int at) {
  if (gate.state != 0) return gate.state > 0;
  const wire::DeviceLimit& limit = region()->limits->device[at];
  int state = -1;
  const bool ruled = (limit.flags & wire::kTurnFlags) != 0 || limit.cap != 0 || limit.slice != 0;
  if ((limit.permille > 0 && limit.permille < kWhole) || ruled) {
    gate.shared = map_turns(limit);
    if (gate.shared != nullptr) join(gate, limit);
    gate.quantum = limit.slice == 0 ? kQuantum : limit.slice * kMillisecond;
    gate.cap = limit.cap < kWhole ? limit.cap : 0;
    gate.cap_since = clock_now();
    if (gate.own != nullptr && make_events(gate)) state = 1;
    if (state < 0)
      say_once(4, "berth: the job's share of the device is not enforced: it cannot take turns");
  }
  __atomic_store_n(&gate.state, state, __ATOMIC_RELEASE);
  return state > 0;
}

void wake(turns::Turns& shared) {
  if (__atomic_load_n(&shared.waiters, __ATOMIC_ACQUIRE) != 0)
    syscall(SYS_futex, &shared.holder, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
}

/// Counts the device's time between `base` and a completed event.
std::uint64_t count_until(Gate& gate, int at, CUevent event) {
  float milliseconds = 0;
  if (driver().event_elapsed(&milliseconds, gate.base, event) != CUDA_SUCCESS || milliseconds < 0)
    return 0;
  const auto took = static_cast<std::uint64_t>(static_cast<double>(milliseconds) * 1e6);
  count(counters(at).busy, took);
  count(gate.own->had, took * kWhole / gate.own->weight);
  gate.cap_used += took;
  return took;
}

void learn(Gate& gate, std::uint64_t took, std::uint64_t calls) {
  if (took > 0 && calls > 0) gate.each = took / calls + 1;
}

/// Calls since `base`.
std::uint64_t sent_in(const Gate& gate) {
  const std::int64_t left = __atomic_load_n(&gate.left, __ATOMIC_RELAXED);
  const std::uint64_t now = gate.batch - (left > 0 ? static_cast<std::uint64_t>(left) : 0);
  return now + (gate.marked ? gate.in_batch : 0);
}

/// Waits until our work is done, and counts its device time.
void settle(Gate& gate, int at) {
  if (!gate.open) return;
  gate.open = false;
  const bool tailed = gate.tailed;
  gate.tailed = false;
  if (!tailed && driver().event_record(gate.spare, gate.last) != CUDA_SUCCESS) return;
  if (real::cuCtxSynchronize() != CUDA_SUCCESS) return;
  const std::uint64_t sent = sent_in(gate);
  gate.marked = false;
  learn(gate, count_until(gate, at, tailed ? gate.tail : gate.spare), sent);
}

/// Whether `a` goes before `b`.
bool is_before(const turns::Place& a, const turns::Place& b) {
  if (a.rank != b.rank) return a.rank < b.rank;
  return __atomic_load_n(&a.had, __ATOMIC_RELAXED) < __atomic_load_n(&b.had, __ATOMIC_RELAXED);
}

/// The waiting process that goes first; nullptr if none waits.
turns::Place* next_one(turns::Turns& shared, std::uint32_t& number) {
  turns::Place* best = nullptr;
  for (std::uint32_t i = 0; i < places_of(shared); ++i) {
    turns::Place& place = shared.place[i];
    if (state_of(place) != turns::kLives || __atomic_load_n(&place.waiting, __ATOMIC_ACQUIRE) == 0)
      continue;
    if (best != nullptr && !is_before(place, *best)) continue;
    best = &place;
    number = i + 1;
  }
  return best;
}

/// Ends our turn: gives it to the waiting process that goes first, if any.
void hand_on(Gate& gate) {
  gate.turn_ends = 0;
  std::uint32_t next = 0, own = gate.number;
  static_cast<void>(next_one(*gate.shared, next));
  __atomic_compare_exchange_n(&gate.shared->holder, &own, next, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_RELAXED);
  wake(*gate.shared);
}

/// What a waiting process has observed about the holder.
struct Watched {
  std::uint32_t holder;
  std::uint64_t sent, since;
};

/// Whether the holder is dead or has sent nothing for a while. A while is a millisecond. If `own`
/// is of an earlier class, it is as long as the work of `own` takes.
bool may_be_taken(const turns::Turns& shared, const turns::Place& own, std::uint32_t holder,
                  std::uint64_t now, Watched& seen) {
  if (holder > turns::kPlaces) return true;
  const turns::Place& place = shared.place[holder - 1];
  if (state_of(place) != turns::kLives) return true;
  const std::uint64_t sent = __atomic_load_n(&place.sent, __ATOMIC_RELAXED);
  if (seen.holder != holder || seen.sent != sent) {
    seen = {holder, sent, now};
    return false;
  }
  const std::uint64_t busy_until = __atomic_load_n(&place.busy_until, __ATOMIC_RELAXED);
  if (own.rank < place.rank) return now >= busy_until;
  const std::uint64_t idle = place.idle > 1 ? place.idle * kMillisecond : kIdle;
  return now >= busy_until + idle && now >= seen.since + idle;
}

/// Waits, then returns the length of the turn. It is short if the turn was taken from a holder that
/// only paused, which may want the device back.
std::uint64_t wait_for_turn(Gate& gate) {
  std::uint64_t quantum = gate.quantum;
  turns::Turns& shared = *gate.shared;
  // Idle time earns no credit.
  if (clock_now() > gate.own->busy_until + kAway) {
    const std::uint64_t least = least_had(shared, gate.own);
    if (gate.own->had < least) __atomic_store_n(&gate.own->had, least, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&gate.own->waiting, 1, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&shared.waiters, 1, __ATOMIC_SEQ_CST);
  std::uint64_t looked = clock_now();
  Watched seen = {};
  for (;;) {
    std::uint32_t holder = __atomic_load_n(&shared.holder, __ATOMIC_SEQ_CST);
    const std::uint64_t now = clock_now();
    if (holder == gate.number) break;
    std::uint32_t next = 0;
    static_cast<void>(next_one(shared, next));
    if ((holder == 0 || may_be_taken(shared, *gate.own, holder, now, seen)) && next == gate.number) {
      if (holder != 0) quantum = kBorrowed;
      if (__atomic_compare_exchange_n(&shared.holder, &holder, gate.number, false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_RELAXED))
        break;
      quantum = gate.quantum;
      continue;
    }
    if (now - looked > 20 * kMillisecond) {
      looked = now;
      bury(shared);
    }
    const timespec nap = {0, kMillisecond / 2};
    syscall(SYS_futex, &shared.holder, FUTEX_WAIT, holder, &nap, nullptr, 0);
  }
  __atomic_fetch_sub(&shared.waiters, 1, __ATOMIC_SEQ_CST);
  __atomic_store_n(&gate.own->waiting, 0, __ATOMIC_SEQ_CST);
  return quantum;
}

bool holds(const Gate& gate) {
  return __atomic_load_n(&gate.shared->holder, __ATOMIC_ACQUIRE) == gate.number;
}

/// Limits work in flight to two milliseconds or one kernel, which also limits the wait at the end
/// of a turn. A batch's time is counted while the next one runs.
void end_batch(Gate& gate, int at, CUstream stream) {
  if (!gate.open || driver().event_record(gate.spare, stream) != CUDA_SUCCESS) return;
  const CUevent newest = gate.spare;
  if (!gate.marked) {
    gate.spare = gate.mark;
  } else {
    if (real::cuEventSynchronize(gate.mark) != CUDA_SUCCESS) return;
    learn(gate, count_until(gate, at, gate.mark), gate.in_batch);
    gate.spare = gate.base;
    gate.base = gate.mark;
  }
  gate.mark = newest;
  gate.in_batch = gate.batch;
  gate.marked = true;
}

void begin_batch(Gate& gate, std::uint64_t now) {
  const std::uint64_t most = gate.each == 0 ? 1 : kInFlight / 2 / gate.each;
  gate.batch = most == 0 ? 1 : most > 64 ? 64 : most;
  const std::uint64_t lasts = gate.each * 2 > kInFlight ? gate.each * 2 : kInFlight;
  __atomic_store_n(&gate.own->busy_until, now + lasts, __ATOMIC_RELAXED);
  // Includes the current call.
  __atomic_store_n(&gate.left, static_cast<std::int64_t>(gate.batch) - 1, __ATOMIC_RELAXED);
}

/// Counts the device's time as ours from now on.
void begin_counting(Gate& gate, CUstream stream) {
  gate.marked = gate.tailed = false;
  gate.open = driver().event_record(gate.base, stream) == CUDA_SUCCESS;
}

/// The program's work is done. The pause since then is not counted as device time.
void close_pause(Gate& gate, int at, CUstream stream) {
  gate.tailed = false;
  if (driver().event_query == nullptr || driver().event_query(gate.tail) != CUDA_SUCCESS) return;
  learn(gate, count_until(gate, at, gate.tail), sent_in(gate));
  begin_counting(gate, stream);
}

/// Living processes of our job on the device; they share its cap.
std::uint64_t processes_of_job(const Gate& gate) {
  if (gate.own->job == 0) return 1;
  std::uint64_t count = 0;
  for (std::uint32_t i = 0; i < places_of(*gate.shared); ++i) {
    const turns::Place& place = gate.shared->place[i];
    count += place.job == gate.own->job && state_of(place) == turns::kLives ? 1 : 0;
  }
  return count > 0 ? count : 1;
}

/// Nanoseconds for which the job must send nothing, because it had more than its cap allows; 0: it
/// may go on. An idle job saves no more than a few milliseconds for later.
std::uint64_t over_cap(Gate& gate, std::uint64_t now) {
  if (gate.cap == 0) return 0;
  const std::uint64_t even = gate.cap / processes_of_job(gate), part = even > 0 ? even : 1;
  const std::uint64_t allowed = (now - gate.cap_since) * part / kWhole;
  if (allowed > gate.cap_used + kOverCap) {
    gate.cap_since = now - kOverCap * kWhole / part;
    gate.cap_used = 0;
    return 0;
  }
  if (gate.cap_used < allowed + kOverCap) return 0;
  return (gate.cap_used - allowed) * kWhole / part;
}

/// Gives the device to others until the job may use it again.
void pause_for_cap(Gate& gate, int at) {
  settle(gate, at);
  if (holds(gate)) hand_on(gate);
  bury(*gate.shared);
  const std::uint64_t rest = over_cap(gate, clock_now());
  timespec pause = {static_cast<time_t>(rest / (1000 * kMillisecond)),
                    static_cast<long>(rest % (1000 * kMillisecond))};
  while (nanosleep(&pause, &pause) != 0 && errno == EINTR) {
  }
}

/// A process of an earlier class waits.
bool is_urgent(const Gate& gate) {
  std::uint32_t number = 0;
  const turns::Place* next = next_one(*gate.shared, number);
  return next != nullptr && next->rank < gate.own->rank;
}

/// Reads the clock. Decides whether our turn continues, and how many calls may be sent until the
/// next check.
void pass_slowly(Gate& gate, int at, CUstream stream) {
  const Locked lock(g_lock);
  if (!begin_gate(gate, at) || is_captured(stream)) return;
  // `berth resize` may have changed it.
  const std::uint32_t share =
      __atomic_load_n(&region()->limits->device[at].permille, __ATOMIC_RELAXED);
  if (share > 0 && share <= kWhole) gate.own->weight = share;
  std::uint32_t other = 0;
  const bool capped = over_cap(gate, clock_now()) > 0;
  if (capped) pause_for_cap(gate, at);
  const bool ours = !capped && gate.turn_ends != 0 && holds(gate);
  std::uint64_t now = clock_now(), quantum = gate.quantum;
  if (ours && now < gate.turn_ends && !is_urgent(gate)) {
    if (gate.tailed)
      close_pause(gate, at, stream);
    else
      end_batch(gate, at, stream);
    return begin_batch(gate, clock_now());
  }
  if (!ours || next_one(*gate.shared, other) != nullptr) {
    settle(gate, at);
    if (ours) {
      // We may get the next turn at once, if we have had the least time.
      __atomic_store_n(&gate.own->waiting, 1, __ATOMIC_SEQ_CST);
      hand_on(gate);
    }
    quantum = wait_for_turn(gate);
  } else if (gate.tailed) {
    close_pause(gate, at, stream);
  } else {
    end_batch(gate, at, stream);
  }
  now = clock_now();
  gate.turn_ends = now + quantum;
  if (!gate.open) begin_counting(gate, stream);
  begin_batch(gate, now);
}

/// The index of this thread's device in the region; -1: it has no limits.
int place_here() {
  static __thread CUcontext known = nullptr;
  static __thread int place = -1;
  static __thread std::uint32_t at_change = 0;
  if (region() == nullptr) return -1;
  const CUcontext context = current_context();
  const std::uint32_t change = __atomic_load_n(&g_changes, __ATOMIC_ACQUIRE);
  if (context == known && context != nullptr && change == at_change) return place;
  at_change = change;
  place = place_of(here().device);
  known = context;
  return place;
}

}  // namespace

bool is_captured(CUstream stream) {
  int status = 0;
  return stream != nullptr && driver().is_capturing != nullptr &&
         driver().is_capturing(stream, &status) == CUDA_SUCCESS && status != 0;
}

int begin_work(CUstream stream) {
  const int at = place_here();
  if (at < 0) return -1;
  Gate& gate = g_gates[at];
  const int state = __atomic_load_n(&gate.state, __ATOMIC_ACQUIRE);
  if (state < 0) return at;
  if (state > 0) {
    __atomic_store_n(&gate.last, stream, __ATOMIC_RELAXED);
    __atomic_store_n(&gate.own->sent, gate.own->sent + 1, __ATOMIC_RELAXED);
    if (holds(gate) && __atomic_fetch_sub(&gate.left, 1, __ATOMIC_RELAXED) > 0) return at;
  }
  pass_slowly(gate, at, stream);
  return at;
}

void end_work(int at, Work work, std::uint64_t bytes) {
  if (at >= 0) count_work(counters(at), work, bytes);
}

void forget_contexts() {
  __atomic_fetch_add(&g_changes, 1, __ATOMIC_RELEASE);
}

void forget_turns() {
  for (Gate& gate : g_gates) gate = {};
  make_fresh(g_lock);
  forget_contexts();
}

void begin_wait() {
  const int at = place_here();
  if (at < 0 || __atomic_load_n(&g_gates[at].state, __ATOMIC_ACQUIRE) <= 0) return;
  const Locked lock(g_lock);
  Gate& gate = g_gates[at];
  if (!gate.open || gate.tailed || is_captured(gate.last)) return;
  __atomic_store_n(&gate.left, 0, __ATOMIC_RELAXED);
  gate.tailed = driver().event_record(gate.tail, gate.last) == CUDA_SUCCESS;
}

void end_wait() {
  for (Gate& gate : g_gates)
    if (__atomic_load_n(&gate.state, __ATOMIC_ACQUIRE) > 0)
      __atomic_store_n(&gate.own->busy_until, clock_now(), __ATOMIC_RELAXED);
}

}  // namespace berth::guard
