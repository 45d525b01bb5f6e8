// Takes turns through the file that a user's jobs share (wire/turns.hpp).
#include "preload/turns.hpp"

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

namespace berth::guard {
namespace {

constexpr std::uint64_t kQuantum = 20 * kMillisecond, kIdle = kMillisecond,
                        kBorrowed = 2 * kMillisecond, kAway = 100 * kMillisecond,
                        kOverCap = 10 * kMillisecond;
// The weight of a job that takes turns but has no share.
constexpr std::uint32_t kSmallWeight = 100;

turns::Turns* map_turns(const wire::DeviceLimit& device) {
  const char* folder = getenv("BERTH_GUARD");  // NOLINT(concurrency-mt-unsafe)
  char path[4096];
  if (folder == nullptr ||
      snprintf(path, sizeof(path), "%s/%s", folder, turns::file_name(device).text) < 0)
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

bool lives(const turns::Place& place) {
  return state_of(place) == turns::kLives;
}
std::uint64_t had_by(const turns::Place& place) {
  return __atomic_load_n(&place.had, __ATOMIC_RELAXED);
}
std::uint64_t own_of(const turns::Place& place) {
  return __atomic_load_n(&place.own, __ATOMIC_RELAXED);
}

/// The device time with which a new or returning job starts: the device time of the job with the
/// newest turn in its class. So idle time earns no credit. It is not enough to look at the jobs
/// that wait now, because other jobs may be idle only for a moment.
std::uint64_t had_now(const turns::Turns& shared, const turns::Place& own) {
  if (own.rank > turns::kBestEffort) return 0;
  return __atomic_load_n(&shared.now[own.rank], __ATOMIC_RELAXED);
}

/// The largest value of `time` among the other living processes of the job.
std::uint64_t most_in_job(const turns::Turns& shared, const turns::Place& own,
                          std::uint64_t (*time)(const turns::Place&)) {
  std::uint64_t most = 0;
  for (std::uint32_t i = 0; i < places_of(shared); ++i) {
    const turns::Place& place = shared.place[i];
    if (&place == &own || !lives(place) || place.job != own.job) continue;
    most = time(place) > most ? time(place) : most;
  }
  return most;
}

void raise(std::uint64_t& word, std::uint64_t to) {
  if (__atomic_load_n(&word, __ATOMIC_RELAXED) < to) __atomic_store_n(&word, to, __ATOMIC_RELAXED);
}
void raise_to_now(turns::Turns& shared, turns::Place& own) {
  raise(own.had, had_now(shared, own));
  raise(own.own, most_in_job(shared, own, own_of));
}

/// The job's number. A job without a lease has no number; a hash of its folder's name replaces it.
std::uint32_t job_word() {
  const std::uint64_t job = region()->limits->job;
  if (job != 0) return static_cast<std::uint32_t>(job);
  const char* folder = getenv("BERTH_GUARD");  // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t name = folder == nullptr ? 0 : wire::name_word(folder, strlen(folder));
  return static_cast<std::uint32_t>(name ^ name >> 32U) | 1U << 31U;
}

void join(Turn& turn, const wire::DeviceLimit& limit) {
  turns::Turns& shared = *turn.shared;
  bury(shared);
  for (std::uint32_t i = 0; i < turns::kPlaces; ++i) {
    turns::Place& place = shared.place[i];
    std::uint32_t state = turns::kFree;
    if (state_of(place) != state) continue;
    berth::wire::raise_count(shared.places, i + 1);
    if (!__atomic_compare_exchange_n(&place.state, &state, berth::wire::taken_by(getpid()), false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      continue;
    place.pid = static_cast<std::int32_t>(getpid());
    place.start = berth::wire::stat_of(place.pid).start;
    place.weight = static_cast<std::uint16_t>(limit.permille > 0 ? limit.permille : kSmallWeight);
    place.rank = (limit.flags & wire::kLatency) != 0      ? turns::kLatency
                 : (limit.flags & wire::kBestEffort) != 0 ? turns::kBestEffort
                                                          : turns::kNormal;
    place.job = job_word();
    place.idle = (limit.flags & wire::kKeepsTurn) != 0 ? 1000 : 1;
    place.waiting = 0;
    place.busy_until = 0;
    place.had = most_in_job(shared, place, had_by);
    place.own = 0;
    raise_to_now(shared, place);
    shared.moved[i] = 0;
    __atomic_store_n(&place.state, turns::kLives, __ATOMIC_RELEASE);
    turn.own = &place;
    turn.number = i + 1;
    return;
  }
}

void wake(turns::Turns& shared) {
  if (__atomic_load_n(&shared.waiters, __ATOMIC_ACQUIRE) != 0)
    syscall(SYS_futex, &shared.holder, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
}

/// Whether `a` gets the next turn before `b`.
bool is_before(const turns::Place& a, const turns::Place& b) {
  if (a.rank != b.rank) return a.rank < b.rank;
  return a.job == b.job ? own_of(a) < own_of(b) : had_by(a) < had_by(b);
}

/// The waiting process that goes first; nullptr if none waits.
turns::Place* next_one(turns::Turns& shared, std::uint32_t& number) {
  turns::Place* best = nullptr;
  for (std::uint32_t i = 0; i < places_of(shared); ++i) {
    turns::Place& place = shared.place[i];
    if (!lives(place) || __atomic_load_n(&place.waiting, __ATOMIC_ACQUIRE) == 0) continue;
    if (best != nullptr && !is_before(place, *best)) continue;
    best = &place;
    number = i + 1;
  }
  return best;
}

/// What a waiting process has observed about the holder.
struct Watched {
  std::uint32_t holder;
  std::uint64_t sent, since;
};

/// Whether the turn may be taken from its holder. That is so if the holder is dead, or has sent no
/// work for a millisecond (or for its own idle time). If `own` is of an earlier class, it is enough
/// that the holder's work is done. If this process holds the turn through the guard's other library
/// (CUDA, OpenCL), the turn may be taken immediately.
bool may_be_taken(const turns::Turns& shared, const turns::Place& own, std::uint32_t holder,
                  std::uint64_t now, Watched& seen) {
  if (holder > turns::kPlaces) return true;
  const turns::Place& place = shared.place[holder - 1];
  if (!lives(place) || (place.pid == own.pid && place.start == own.start)) return true;
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

/// Whether a process of another job has the turn.
bool is_of_others(const turns::Turns& shared, const turns::Place& own, std::uint32_t holder) {
  return holder != 0 && holder <= turns::kPlaces && shared.place[holder - 1].job != own.job;
}

/// The number of living processes of our job on the device. They share the job's cap.
std::uint64_t processes_of_job(const Turn& turn) {
  std::uint64_t count = 0;
  for (std::uint32_t i = 0; i < places_of(*turn.shared); ++i) {
    const turns::Place& place = turn.shared->place[i];
    count += place.job == turn.own->job && lives(place) ? 1 : 0;
  }
  return count > 0 ? count : 1;
}

}  // namespace

bool takes_turns(const wire::DeviceLimit& limit) {
  const std::uint32_t share = __atomic_load_n(&limit.permille, __ATOMIC_RELAXED);
  return (share > 0 && share < kWhole) || (limit.flags & wire::kTurnFlags) != 0 || limit.cap != 0 ||
         limit.slice != 0;
}

bool join_turns(Turn& turn, int at) {
  const wire::DeviceLimit& limit = region()->limits->device[at];
  turn.shared = map_turns(limit);
  if (turn.shared != nullptr) join(turn, limit);
  turn.quantum = limit.slice == 0 ? kQuantum : limit.slice * kMillisecond;
  turn.cap = limit.cap < kWhole ? limit.cap : 0;
  turn.cap_since = clock_now();
  return turn.own != nullptr;
}

void tell_no_turns() {
  say_once(4, "berth: the job's share of the device is not enforced: it cannot take turns");
}

void update_weight(Turn& turn, int at) {
  const std::uint32_t share =
      __atomic_load_n(&region()->limits->device[at].permille, __ATOMIC_RELAXED);
  if (share > 0 && share <= kWhole) turn.own->weight = static_cast<std::uint16_t>(share);
}

void charge_time(Turn& turn, int at, std::uint64_t took) {
  count(counters(at).busy, took);
  count(turn.own->own, took);
  // The share belongs to the whole job, so add the time to all of its processes. Other processes
  // can write to the file, so the weight may be 0.
  const std::uint64_t had = took * kWhole / at_least_one(turn.own->weight);
  for (std::uint32_t i = 0; i < places_of(*turn.shared); ++i) {
    turns::Place& place = turn.shared->place[i];
    if (&place == turn.own || (place.job == turn.own->job && lives(place))) count(place.had, had);
  }
  turn.cap_used += took;
}

bool is_wanted(const Turn& turn) {
  std::uint32_t number = 0;
  return next_one(*turn.shared, number) != nullptr;
}

bool is_urgent(const Turn& turn) {
  std::uint32_t number = 0;
  const turns::Place* next = next_one(*turn.shared, number);
  return next != nullptr && next->rank < turn.own->rank;
}

void hand_on(Turn& turn, bool again) {
  turn.ends = 0;
  if (again) __atomic_store_n(&turn.own->waiting, 1, __ATOMIC_SEQ_CST);
  std::uint32_t next = 0, own = turn.number;
  static_cast<void>(next_one(*turn.shared, next));
  __atomic_compare_exchange_n(&turn.shared->holder, &own, next, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_RELAXED);
  wake(*turn.shared);
}

std::uint64_t wait_for_turn(Turn& turn, int at) {
  std::uint64_t quantum = turn.quantum;
  turns::Turns& shared = *turn.shared;
  // A process that was idle for a while gets no credit for that time.
  if (clock_now() > turn.own->busy_until + kAway) raise_to_now(shared, *turn.own);
  __atomic_store_n(&turn.own->waiting, 1, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&shared.waiters, 1, __ATOMIC_SEQ_CST);
  std::uint64_t looked = clock_now();
  Watched seen = {};
  std::uint64_t waited = 0, since = looked;
  bool was_of_others = false;
  for (;;) {
    std::uint32_t holder = __atomic_load_n(&shared.holder, __ATOMIC_SEQ_CST);
    const std::uint64_t now = clock_now();
    if (was_of_others) waited += now - since;
    since = now;
    was_of_others = is_of_others(shared, *turn.own, holder);
    if (holder == turn.number) break;
    std::uint32_t next = 0;
    static_cast<void>(next_one(shared, next));
    if ((holder == 0 || may_be_taken(shared, *turn.own, holder, now, seen)) &&
        next == turn.number) {
      if (holder != 0) quantum = kBorrowed;
      const std::uint32_t before = holder;
      if (__atomic_compare_exchange_n(&shared.holder, &holder, turn.number, false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_RELAXED)) {
        if (before != 0 && before <= turns::kPlaces)
          __atomic_store_n(&shared.lost[before - 1], now, __ATOMIC_RELAXED);
        break;
      }
      quantum = turn.quantum;
      continue;
    }
    if (now - looked > 20 * kMillisecond) {
      looked = now;
      bury(shared);
    }
    const timespec nap = {0, kMillisecond / 2};
    syscall(SYS_futex, &shared.holder, FUTEX_WAIT, holder, &nap, nullptr, 0);
  }
  count(counters(at).waited, waited);
  turn.changed_hands =
      __atomic_exchange_n(&shared.last, turn.number, __ATOMIC_RELAXED) != turn.number;
  __atomic_fetch_sub(&shared.waiters, 1, __ATOMIC_SEQ_CST);
  __atomic_store_n(&turn.own->waiting, 0, __ATOMIC_SEQ_CST);
  return quantum;
}

std::uint64_t since_lost(const Turn& turn) {
  const std::uint64_t when = __atomic_load_n(&turn.shared->lost[turn.number - 1], __ATOMIC_RELAXED);
  const std::uint64_t now = clock_now();
  return when != 0 && now > when ? now - when : 0;
}

void begin_turn(Turn& turn, std::uint64_t quantum) {
  turn.ends = clock_now() + quantum;
  __atomic_store_n(&turn.shared->lost[turn.number - 1], 0, __ATOMIC_RELAXED);
  if (turn.own->rank <= turns::kBestEffort)
    raise(turn.shared->now[turn.own->rank], had_by(*turn.own));
}

std::uint64_t moved_by_all(const Turn& turn) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < places_of(*turn.shared); ++i)
    if (lives(turn.shared->place[i]))
      sum += __atomic_load_n(&turn.shared->moved[i], __ATOMIC_RELAXED);
  return sum;
}

void set_moved(Turn& turn, std::uint64_t bytes, bool displaces) {
  for (std::uint32_t i = 0; displaces && i < places_of(*turn.shared); ++i)
    __atomic_store_n(&turn.shared->moved[i], 0, __ATOMIC_RELAXED);
  __atomic_store_n(&turn.shared->moved[turn.number - 1], bytes, __ATOMIC_RELAXED);
}

std::uint64_t over_cap(Turn& turn, std::uint64_t now) {
  if (turn.cap == 0) return 0;
  const std::uint64_t even = turn.cap / processes_of_job(turn), part = even > 0 ? even : 1;
  const std::uint64_t allowed = (now - turn.cap_since) * part / kWhole;
  if (allowed > turn.cap_used + kOverCap) {
    turn.cap_since = now - kOverCap * kWhole / part;
    turn.cap_used = 0;
    return 0;
  }
  if (turn.cap_used < allowed + kOverCap) return 0;
  return (turn.cap_used - allowed) * kWhole / part;
}

void pause_for_cap(Turn& turn) {
  if (holds(turn)) hand_on(turn, false);
  bury(*turn.shared);
  const std::uint64_t rest = over_cap(turn, clock_now());
  timespec pause = {static_cast<time_t>(rest / (1000 * kMillisecond)),
                    static_cast<long>(rest % (1000 * kMillisecond))};
  while (nanosleep(&pause, &pause) != 0 && errno == EINTR) {
  }
}

}  // namespace berth::guard
