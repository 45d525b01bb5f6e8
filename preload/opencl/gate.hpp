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
  Queue queue;  // to compare only: the program may have released it
  // the user event for which the command waits, directly or through other commands
  Event cause;
  std::uint64_t sent, since;  // since: when the command was sent, or when it was no longer held
  int place;
  std::uint32_t users;  // threads that use the command without the lock
  // the command waits for something other than the device, so it is not in flight
  bool held;
  bool ended, is_heard;  // is_heard: the driver has announced the command's end
  bool no_times;         // the times of the command's event are not those of its work
};

struct Gate {
  // 1: the job has a share of the device; -1: it has none; 0: not checked yet
  int state;
  pthread_mutex_t entry;  // held by a thread that sends a command or waits; one thread at a time
  Turn turn;              // written by the thread that holds `entry`
  pthread_mutex_t lock;   // protects everything below; never held during a call of the driver
  Command *oldest, *newest;
  // number of commands in flight (on the device or next in its queues), and of held commands
  std::uint64_t flight, held;
  // a waiting thread continues when at most this many commands are in flight
  std::uint64_t enough;
  // changes: number of commands that ended; threads wait on it as a futex
  std::uint32_t waiters, changes;
  // in nanoseconds: the average duration of a command, and the longest duration (slowly reduced
  // over time)
  std::uint64_t each, longest;
  std::uint64_t last_end;  // when the last command ended
  berth::wire::CoveredTime covered;
};

[[nodiscard]] Gate& gate_at(int place);
/// Call it in a child after fork(). It forgets the parent's queues.
void forget_queues();

/// Appends the command. Call it with the lock held.
void append(Gate& gate, Command& command);
/// Removes a command that the driver has not taken, or whose end it will not announce.
void drop(Gate& gate, Command* command);
/// Requests the announcement of a command's end, after the driver has taken the command. The guard
/// owns a reference to `event`. False: the driver will not announce the end, so the command was
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
/// Counts the commands that waited for this user event as in flight from now on. Call it with the
/// lock held.
void release_commands(Gate& gate, Event cause);

/// Why a new command would not start soon, although the device is free.
struct Hold {
  bool is_held;
  Event cause;  // the user event; nullptr: not known
};
[[nodiscard]] Hold hold_of(Gate& gate, Queue queue, const WaitList& wait_for);

}  // namespace berth::guard::cl
