// Whose turn it is on a device, for the processes of jobs with a share. Each library of the guard
// sends work only while its process holds the device, and charges the device time of that work.
#pragma once

#include "preload/ledger.hpp"
#include "wire/turns.hpp"

namespace berth::guard {

namespace turns = berth::wire::turns;

constexpr std::uint64_t kMillisecond = 1'000'000, kWhole = 1000;
/// The maximum work that may be on the device at a time, so that a turn ends soon after its
/// quantum.
constexpr std::uint64_t kInFlight = 2 * kMillisecond;

/// The state of this process as one of those that take turns on a device. Lock it before calling
/// any function except holds().
struct Turn {
  turns::Turns* shared;
  turns::Place* own;     // nullptr: this process takes no turns
  std::uint32_t number;  // the index of `own`, plus 1
  std::uint64_t ends;    // when our turn ends; 0: it is not our turn
  std::uint64_t quantum;
  bool changed_hands;  // another process had the turn before our current turn
  std::uint64_t cap;   // the cap in permille; 0: there is no cap
  // start of the period for the cap, and the device time used since then
  std::uint64_t cap_since, cap_used;
};

/// Whether jobs with this limit take turns.
[[nodiscard]] bool takes_turns(const wire::DeviceLimit& limit);
/// Registers this process for turns on a device. `at`: the device's index in the region. False:
/// this process cannot take turns.
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
/// work is done. `again`: this process wants the next turn. It gets that turn immediately if it had
/// the least time.
void hand_on(Turn& turn, bool again);
/// Waits for our turn and returns its length. Counts the time for which another job had the device,
/// whose index in the region is `at`. The turn is short if the turn was taken from a holder that
/// only paused, because the holder may want the device back.
[[nodiscard]] std::uint64_t wait_for_turn(Turn& turn, int at);
/// Nanoseconds since another process took our turn, because we paused; 0: no process took it.
[[nodiscard]] std::uint64_t since_lost(const Turn& turn);
/// Begins our turn, or begins it again if no other process wants the device.
void begin_turn(Turn& turn, std::uint64_t quantum);

/// How much managed memory all processes have moved to the device (--spill).
[[nodiscard]] std::uint64_t moved_by_all(const Turn& turn);
/// Records how much memory this process has moved to the device. `displaces`: whether the move
/// displaced memory that other processes had moved.
void set_moved(Turn& turn, std::uint64_t bytes, bool displaces);

/// Nanoseconds for which the job must send nothing, because it has used more time than its cap
/// allows; 0: it may send now. An idle job can save up at most a few milliseconds.
[[nodiscard]] std::uint64_t over_cap(Turn& turn, std::uint64_t now);
/// Gives the device to others until the job may use it again. Call it only when our work is done.
void pause_for_cap(Turn& turn);

}  // namespace berth::guard
