// Whose turn it is on a device, for the processes of jobs with a share. Each library of the guard
// sends work only while its process holds the device, and charges the device time of that work.
#pragma once

#include "preload/ledger.hpp"
#include "wire/turns.hpp"

namespace berth::guard {

namespace turns = berth::wire::turns;

constexpr std::uint64_t kMillisecond = 1'000'000, kWhole = 1000;
/// The most work that may be on the device at a time, so that a turn ends soon after its quantum.
constexpr std::uint64_t kInFlight = 2 * kMillisecond;

/// This process's place among those that take turns on one device. The caller locks it, except for
/// holds().
struct Turn {
  turns::Turns* shared;
  turns::Place* own;     // nullptr: this process takes no turns
  std::uint32_t number;  // place + 1
  std::uint64_t ends;    // 0: not our turn
  std::uint64_t quantum;
  bool changed_hands;                 // another process had the turn before this one
  std::uint64_t cap;                  // permille; 0: none
  std::uint64_t cap_since, cap_used;  // device time since then
};

/// Whether jobs with this limit take turns.
[[nodiscard]] bool takes_turns(const wire::DeviceLimit& limit);
/// `at`: the device's index in the region. False: this process cannot take turns.
[[nodiscard]] bool join_turns(Turn& turn, int at);
/// Says once on stderr that the share is not enforced.
void tell_no_turns();
/// Reads the job's share again: `berth resize` may have changed it.
void update_weight(Turn& turn, int at);

[[nodiscard]] inline bool holds(const Turn& turn) {
  return __atomic_load_n(&turn.shared->holder, __ATOMIC_ACQUIRE) == turn.number;
}
/// Counts device time of this process.
void charge_time(Turn& turn, int at, std::uint64_t took);
/// Records when the work that was sent will probably be done. Other processes wait at least until
/// then.
inline void set_busy_until(Turn& turn, std::uint64_t when) {
  __atomic_store_n(&turn.own->busy_until, when, __ATOMIC_RELAXED);
}

/// Whether another process waits for the device.
[[nodiscard]] bool is_wanted(const Turn& turn);
/// Whether a process of an earlier class waits for the device.
[[nodiscard]] bool is_urgent(const Turn& turn);
/// Ends our turn: gives it to the waiting process that goes first, if any. Call it only when our
/// work is done. `again`: we want the next turn, and get it at once if we had the least time.
void hand_on(Turn& turn, bool again);
/// Waits, then returns the length of the turn. Counts the time for which another job had the
/// device, whose index in the region is `at`. The turn is short if the turn was taken from a holder
/// that only paused, which may want the device back.
[[nodiscard]] std::uint64_t wait_for_turn(Turn& turn, int at);
/// Nanoseconds since another process took our turn, because we paused; 0: none did.
[[nodiscard]] std::uint64_t since_lost(const Turn& turn);
/// Our turn begins now, or begins again because no other process wants the device.
void begin_turn(Turn& turn, std::uint64_t quantum);

/// Managed memory that all processes have moved to the device (--spill).
[[nodiscard]] std::uint64_t moved_by_all(const Turn& turn);
/// Records how much memory this process has moved to the device. `displaces`: whether this
/// displaced memory that other processes had moved.
void set_moved(Turn& turn, std::uint64_t bytes, bool displaces);

/// Nanoseconds for which the job must send nothing, because it has used more time than its cap
/// allows; 0: it may send now. An idle job can save up at most a few milliseconds.
[[nodiscard]] std::uint64_t over_cap(Turn& turn, std::uint64_t now);
/// Gives the device to others until the job may use it again. Call it only when our work is done.
void pause_for_cap(Turn& turn);

}  // namespace berth::guard
