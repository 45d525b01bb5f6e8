// Shares of OpenCL jobs. A command is sent only during the job's turn. Until then, the program's
// call waits. The turn is passed on when the commands in flight have ended.
//
// A command behind a user event needs no turn yet: the call that sets the event waits for the turn.
#include <stdlib.h>
#include <unistd.h>

#include "preload/opencl/gate.hpp"

namespace berth::guard::cl {
namespace {

constinit Gate g_gates[wire::kMaxDevices] = {};

void tell_trouble() {
  __atomic_store_n(&region()->usage->trouble, wire::kOpenClTime, __ATOMIC_RELAXED);
}

/// Waits until the job may send a command, then calls `then` with the gate's lock held.
template <typename Then>
void pass(Gate& gate, int place, Then&& then) {
  const Locked entry(gate.entry);
  Turn& turn = gate.turn;
  count(turn.own->sent);
  update_weight(turn, place);
  if (over_cap(turn, clock_now()) > 0) {
    wait_for_commands(gate, 0);
    pause_for_cap(turn);
  }
  const bool ours = turn.ends != 0 && holds(turn);
  const bool goes_on = ours && clock_now() < turn.ends && !is_urgent(turn);
  std::uint64_t quantum = turn.quantum;
  if (!ours || (!goes_on && is_wanted(turn))) {
    wait_for_commands(gate, 0);
    if (ours) hand_on(turn, true);
    quantum = wait_for_turn(turn, place);
  } else {
    limit_flight(gate);
  }
  if (!goes_on) begin_turn(turn, quantum);
  const Locked lock(gate.lock);
  then();
}

}  // namespace

Gate& gate_at(int place) {
  return g_gates[place];
}

bool has_share(int place) {
  if (place < 0) return false;
  Gate& gate = gate_at(place);
  const int known = __atomic_load_n(&gate.state, __ATOMIC_ACQUIRE);
  if (known != 0) return known > 0;
  const Locked entry(gate.entry);
  if (gate.state != 0) return gate.state > 0;
  int state = -1;
  if (takes_turns(region()->limits->device[place])) {
    const bool can = real::clSetEventCallback != nullptr && real::clGetEventInfo != nullptr &&
                     real::clRetainEvent != nullptr && real::clReleaseEvent != nullptr;
    if (can && join_turns(gate.turn, place)) state = 1;
    if (state < 0) {
      tell_trouble();
      tell_no_turns();
    }
  }
  __atomic_store_n(&gate.state, state, __ATOMIC_RELEASE);
  return state > 0;
}

Command* begin_command(int place, Queue queue, const WaitList& wait_for) {
  auto* const command = static_cast<Command*>(calloc(1, sizeof(Command)));
  if (command == nullptr) return nullptr;
  Gate& gate = gate_at(place);
  const Hold hold = hold_of(gate, queue, wait_for);
  command->queue = queue;
  command->place = place;
  command->held = hold.is_held;
  command->cause = hold.cause;
  if (hold.cause != nullptr) {
    const Locked lock(gate.lock);
    append(gate, *command);
  } else {
    pass(gate, place, [&] { append(gate, *command); });
  }
  return command;
}

void command_sent(Command* command, Queue queue, Event event) {
  Gate& gate = gate_at(command->place);
  if (event == nullptr) return drop(gate, command);
  if (!watch(gate, command, event)) tell_trouble();
  // Flush the queue, because our turn has begun, and other processes wait for the turn's end.
  if (real::clFlush != nullptr) real::clFlush(queue);
}

void ignore_times(Command* command) {
  command->no_times = true;
}

Int clSetUserEventStatus(Event event, Int status) {
  for (Uint i = 0; region() != nullptr && status <= kComplete && i < wire::kMaxDevices; ++i) {
    Gate& gate = g_gates[i];
    if (__atomic_load_n(&gate.state, __ATOMIC_ACQUIRE) > 0 && holds_back(gate, event))
      pass(gate, static_cast<int>(i), [&] { release_commands(gate, event); });
  }
  return real::clSetUserEventStatus(event, status);
}

/// Call it in a forked child, which has none of the parent's commands.
void forget_shares() {
  forget_queues();
  for (Gate& gate : g_gates) {
    gate = {};
    make_fresh(gate.entry);
    make_fresh(gate.lock);
  }
}

}  // namespace berth::guard::cl
