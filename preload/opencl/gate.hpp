// A process of a job with a share, on one device: its turns, and its commands on the device.
#pragma once

#include "preload/opencl/layer.hpp"
#include "preload/turns.hpp"
#include "wire/covered_time.hpp"

namespace berth::guard::cl {

/// A command. It exists from the call that sends it until the driver's callback reports its end.
struct Command {
  Command *before, *after;
  // the guard holds one reference; nullptr: the driver's function has not returned yet
  Event event;
  Queue queue;                // to compare only: the program may have released it
  Event cause;                // the user event that it waits for, itself or by other commands
  std::uint64_t sent, since;  // since: when the command was sent, or when its hold ended
  int place;
  std::uint32_t users;   // threads that use it without the lock
  bool held;             // waits for something other than the device, so it is not in flight
  bool ended, is_heard;  // is_heard: the driver has announced the end
  bool no_times;         // the times of its event are not those of its work
};

struct Gate {
  int state;              // 1: has a share, -1: has none, 0: not checked yet
  pthread_mutex_t entry;  // held by a thread that sends a command or waits; one thread at a time
  Turn turn;              // written by the thread in `entry`
  pthread_mutex_t lock;   // protects everything below; never held during a call of the driver
  Command *oldest, *newest;
  std::uint64_t flight, held;      // commands on the device or next in its queues; held commands
  std::uint64_t enough;            // a thread waits until at most this many are in flight
  std::uint32_t waiters, changes;  // changes: counts commands that ended; a futex
  // in nanoseconds: the average duration of a command, and that of long commands
  std::uint64_t each, longest;
  std::uint64_t last_end;  // when a command ended
  berth::wire::CoveredTime covered;
};

[[nodiscard]] Gate& gate_at(int place);
/// In a child after fork().
void forget_queues();

/// Appends the command. Call it with the lock held.
void append(Gate& gate, Command& command);
/// Removes a command that the driver has not taken, or whose end it will not announce.
void drop(Gate& gate, Command* command);
/// Requests the announcement of a command's end, after the driver has taken the command. `event`
/// has a reference for the guard. False: the driver will not announce the end, so the command was
/// dropped.
[[nodiscard]] bool watch(Gate& gate, Command* command, Event event);
/// Limits the work in flight to a few milliseconds.
void limit_flight(Gate& gate);
/// Waits until at most `most` commands are in flight, but never for commands that do not start.
void wait_for_commands(Gate& gate, std::uint64_t most);
/// Asks the driver for the status of the commands that wait for no user event. True: at least one
/// of them runs or has ended.
bool look_at_commands(Gate& gate);
/// Whether commands wait for this user event.
[[nodiscard]] bool holds_back(Gate& gate, Event cause);
/// The commands that this user event holds are in flight from now on. Call it with the lock held.
void release_commands(Gate& gate, Event cause);

/// Why a new command would not start soon, although the device is free.
struct Hold {
  bool is_held;
  Event cause;  // nullptr: not known
};
[[nodiscard]] Hold hold_of(Gate& gate, Queue queue, const WaitList& wait_for);

}  // namespace berth::guard::cl
