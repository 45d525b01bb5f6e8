// The commands of a job with a share, while they are on the device. The driver announces their ends
// by callbacks, and measures their times.
//
// A command may wait for something that the program does later, such as a user event. So a thread
// that waits for commands here, inside a call of the program, must never wait for such a command.
// Commands behind a user event are known (`cause`). A command that is blocked by anything else is
// recognised by its status: it does not start within some milliseconds, although no other command
// runs.
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/opencl/gate.hpp"

namespace berth::guard::cl {
namespace {

constexpr std::uint64_t kStalled = 10 * kMillisecond, kNever = 10'000 * kMillisecond;
/// If the driver does not announce the end of our work, other processes wait for the usual time of
/// the commands, and then for this time.
constexpr std::uint64_t kUnknown = 100 * kMillisecond;
constexpr std::uint32_t kLooked = 64;

void set_flight_time(Gate& gate) {
  if (gate.flight > 0)
    set_busy_until(gate.turn, clock_now() + kUnknown + 2 * gate.longest + gate.each * gate.flight);
}

void changed(Gate& gate) {
  __atomic_fetch_add(&gate.changes, 1, __ATOMIC_RELEASE);
  if (gate.waiters > 0 && gate.flight <= gate.enough)
    syscall(SYS_futex, &gate.changes, FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr, nullptr, 0);
}

void fly(Gate& gate, Command& command) {
  if (!command.held || command.ended) return;
  command.held = false;
  command.cause = nullptr;
  command.since = clock_now();
  --gate.held;
  ++gate.flight;
}
void hold(Gate& gate, Command& command) {
  if (command.held) return;
  command.held = true;
  ++gate.held;
  --gate.flight;
}

/// Call it when the queue makes progress. Its commands that seemed blocked will start, so they
/// count as in flight again.
void free_queue(Gate& gate, Queue queue) {
  for (Command* one = gate.oldest; gate.held > 0 && one != nullptr; one = one->after)
    if (one->queue == queue && one->cause == nullptr) fly(gate, *one);
}

void remove(Gate& gate, Command& command) {
  command.ended = true;
  --(command.held ? gate.held : gate.flight);
  (command.before != nullptr ? command.before->after : gate.oldest) = command.after;
  (command.after != nullptr ? command.after->before : gate.newest) = command.before;
  if (command.held && command.cause == nullptr) free_queue(gate, command.queue);
  if (gate.flight == 0) set_busy_until(gate.turn, clock_now());
  changed(gate);
}

/// When the device ran the command, by the device's clock.
struct Span {
  std::uint64_t begin, end;
};
/// The times of the command of this event; {0, 0} if they are not known, because the queue does not
/// measure.
Span span_of(Event event) {
  Span span = {};
  if (real::clGetEventProfilingInfo == nullptr ||
      real::clGetEventProfilingInfo(event, kProfilingStart, sizeof(span.begin), &span.begin,
                                    nullptr) != kSuccess ||
      real::clGetEventProfilingInfo(event, kProfilingEnd, sizeof(span.end), &span.end, nullptr) !=
          kSuccess)
    return {};
  return span;
}

/// Charges the time of a command that has ended. If the driver did not measure it, charges the time
/// since the command was sent, or since the last command ended if that was later.
void charge(Gate& gate, const Command& command, const Span& span) {
  const std::uint64_t now = clock_now();
  const std::uint64_t begin = command.since > gate.last_end ? command.since : gate.last_end;
  const bool is_known =
      span.end > span.begin && span.end - span.begin <= now - command.sent + kMillisecond;
  const std::uint64_t lasted = is_known ? span.end - span.begin : now - command.since;
  const std::uint64_t took = is_known      ? gate.covered.add(span.begin, span.end)
                             : now > begin ? now - begin
                                           : 0;
  gate.last_end = now;
  gate.each = gate.each == 0 ? at_least_one(lasted) : at_least_one((3 * gate.each + lasted) / 4);
  const std::uint64_t faded = gate.longest - gate.longest / 64;
  gate.longest = lasted > faded ? lasted : faded;
  charge_time(gate.turn, command.place, took);
}

/// Handles the driver's report that a command has ended. A failed command did not run, so its time
/// is not charged.
void end(Gate& gate, Command& command, Int status) {
  const bool is_measured = status == kComplete && !command.no_times;
  const Span span = is_measured ? span_of(command.event) : Span{};
  const Locked lock(gate.lock);
  if (command.ended) return;
  if (status == kComplete) charge(gate, command, span);
  remove(gate, command);
}

/// Frees the command when no thread uses it any more and the driver has announced its end. Call it
/// without the lock.
void leave(Gate& gate, Command* command, bool is_heard) {
  bool is_last = false;
  {
    const Locked lock(gate.lock);
    if (is_heard)
      command->is_heard = true;
    else
      --command->users;
    is_last = command->is_heard && command->users == 0;
  }
  if (!is_last) return;
  if (command->event != nullptr) real::clReleaseEvent(command->event);
  free(command);
}

/// The driver calls this when a command has ended. `data`: the command.
void is_over(Event /*event*/, Int status, void* data) {
  auto* const command = static_cast<Command*>(data);
  Gate& gate = gate_at(command->place);
  end(gate, *command, status);
  leave(gate, command, true);
}

void hold_all(Gate& gate) {
  const Locked lock(gate.lock);
  for (Command* one = gate.oldest; one != nullptr; one = one->after) hold(gate, *one);
  changed(gate);
}

/// Whether a queue is in order. An unknown queue counts as in order.
bool is_in_order(Queue queue) {
  Flags flags = 0;
  return real::clGetCommandQueueInfo(queue, kQueueProperties, sizeof(flags), &flags, nullptr) !=
             kSuccess ||
         (flags & kQueueOutOfOrder) == 0;
}

bool is_unset_user_event(Event event) {
  Uint type = 0;
  Int status = kComplete;
  return real::clGetEventInfo(event, kEventCommandType, sizeof(type), &type, nullptr) == kSuccess &&
         type == kCommandUser &&
         real::clGetEventInfo(event, kEventStatus, sizeof(status), &status, nullptr) == kSuccess &&
         status > kComplete;
}

/// Whether a new command must wait for a held command (one that waits for something other than the
/// device). The held command is in the wait list of the new one, or earlier in the same in-order
/// queue.
Hold hold_behind(Gate& gate, Queue queue, const WaitList& list) {
  Hold found = {};
  const Locked lock(gate.lock);
  for (const Command* one = gate.oldest; one != nullptr; one = one->after) {
    if (!one->held) continue;
    bool is_behind = one->queue == queue;
    for (Uint i = 0; i < list.count && !is_behind; ++i)
      is_behind = list.events[i] != nullptr && list.events[i] == one->event;
    if (is_behind && (!found.is_held || found.cause == nullptr)) found = {true, one->cause};
  }
  return found;
}

}  // namespace

void append(Gate& gate, Command& command) {
  command.sent = command.since = clock_now();
  command.before = gate.newest;
  (gate.newest != nullptr ? gate.newest->after : gate.oldest) = &command;
  gate.newest = &command;
  ++(command.held ? gate.held : gate.flight);
  set_flight_time(gate);
}

void drop(Gate& gate, Command* command) {
  {
    const Locked lock(gate.lock);
    if (!command->ended) remove(gate, *command);
  }
  leave(gate, command, true);
}

bool watch(Gate& gate, Command* command, Event event) {
  {
    const Locked lock(gate.lock);
    command->event = event;
  }
  if (real::clSetEventCallback(event, kComplete, is_over, command) == kSuccess) return true;
  drop(gate, command);
  return false;
}

void limit_flight(Gate& gate) {
  std::uint64_t most = 0, flight = 0;
  {
    const Locked lock(gate.lock);
    most = gate.each == 0 ? 0 : kInFlight / gate.each;
    flight = gate.flight;
  }
  most = most < 2 ? 2 : most > 64 ? 64 : most;
  if (flight >= most) wait_for_commands(gate, most / 2);
}

void wait_for_commands(Gate& gate, std::uint64_t most) {
  const std::uint64_t began = clock_now();
  std::uint64_t moved = began;
  for (;;) {
    const std::uint32_t changes = __atomic_load_n(&gate.changes, __ATOMIC_ACQUIRE);
    std::uint64_t longest = 0;
    {
      const Locked lock(gate.lock);
      gate.waiters = gate.flight > most ? 1 : 0;
      gate.enough = most;
      longest = gate.longest;
      if (gate.waiters == 0) return;
    }
    const timespec nap = {0, kMillisecond};
    syscall(SYS_futex, &gate.changes, FUTEX_WAIT_PRIVATE, changes, &nap, nullptr, 0);
    const std::uint64_t now = clock_now();
    if (__atomic_load_n(&gate.changes, __ATOMIC_ACQUIRE) != changes || look_at_commands(gate))
      moved = now;
    const std::uint64_t patience = kStalled > 4 * longest ? kStalled : 4 * longest;
    if (now - moved > patience || now - began > kNever + 4 * longest) hold_all(gate);
  }
}

bool look_at_commands(Gate& gate) {
  Command* some[kLooked] = {};
  std::uint32_t count = 0;
  {
    const Locked lock(gate.lock);
    for (Command* one = gate.oldest; one != nullptr && count < kLooked; one = one->after) {
      if (one->event == nullptr || one->cause != nullptr) continue;
      ++one->users;
      some[count++] = one;
    }
  }
  bool is_moving = false;
  for (std::uint32_t i = 0; i < count; ++i) {
    Command& one = *some[i];
    Int status = kComplete + 1;
    const bool is_known =
        real::clGetEventInfo(one.event, kEventStatus, sizeof(status), &status, nullptr) == kSuccess;
    if (is_known && status <= kComplete) {
      end(gate, one, status);
      is_moving = true;
    } else if (is_known && status == kRunning) {
      const Locked lock(gate.lock);
      fly(gate, one);
      free_queue(gate, one.queue);
      is_moving = true;
    }
    leave(gate, &one, false);
  }
  return is_moving;
}

bool holds_back(Gate& gate, Event cause) {
  const Locked lock(gate.lock);
  for (const Command* one = gate.oldest; gate.held > 0 && one != nullptr; one = one->after)
    if (one->cause == cause) return true;
  return false;
}

void release_commands(Gate& gate, Event cause) {
  for (Command* one = gate.oldest; gate.held > 0 && one != nullptr; one = one->after)
    if (one->cause == cause) fly(gate, *one);
  set_flight_time(gate);
}

Hold hold_of(Gate& gate, Queue queue, const WaitList& wait_for) {
  const WaitList list = {wait_for.events == nullptr ? 0 : wait_for.count, wait_for.events};
  for (Uint i = 0; i < list.count; ++i)
    if (list.events[i] != nullptr && is_unset_user_event(list.events[i]))
      return {true, list.events[i]};
  if (__atomic_load_n(&gate.held, __ATOMIC_RELAXED) == 0) return {};
  if (!is_in_order(queue)) queue = nullptr;
  const Hold found = hold_behind(gate, queue, list);
  if (!found.is_held || found.cause != nullptr) return found;
  // The held command may have started since the last look.
  static_cast<void>(look_at_commands(gate));
  return hold_behind(gate, queue, list);
}

}  // namespace berth::guard::cl
