// Counts the device time of a job without a share: the time during which at least one command of
// this process is on the device. A command counts from the call that sends it. The driver announces
// its end by a callback of the command's event.
#include "preload/ledger.hpp"
#include "preload/opencl/layer.hpp"

namespace berth::guard::cl {
namespace {

struct Busy {
  std::uint64_t commands, since;
};
constinit Busy g_busy[wire::kMaxDevices] = {};
constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

/// Counts the time until now. Call it with the lock held.
void count_until_now(Busy& busy, int place) {
  const std::uint64_t now = clock_now();
  if (busy.commands > 0 && now > busy.since) count(counters(place).busy, now - busy.since);
  busy.since = now;
}

void command_ends(int place) {
  if (region() == nullptr) return;
  const Locked lock(g_lock);
  Busy& busy = g_busy[place];
  count_until_now(busy, place);
  if (busy.commands > 0) --busy.commands;
}

/// The driver calls this when a command has ended. `data`: the device's place in the region.
void is_over(Event /*event*/, Int /*status*/, void* data) {
  command_ends(static_cast<int>(reinterpret_cast<std::intptr_t>(data)));
}

}  // namespace

Timed::Timed(int place, Queue queue, const WaitList& wait_for, Event*& event)
    : place_(place), queue_(queue) {
  const bool shares = has_share(place_);
  if (place_ < 0 || real::clSetEventCallback == nullptr) {
    place_ = -1;
    return;
  }
  if (event == nullptr) event = &own_;
  event_ = event;
  if (shares) command_ = begin_command(place_, queue, wait_for);
  if (command_ != nullptr) return;
  const Locked lock(g_lock);
  count_until_now(g_busy[place_], place_);
  ++g_busy[place_].commands;
}

void Timed::sent(bool is_sent) {
  if (place_ < 0) return;
  if (command_ != nullptr) {
    // Take a reference for the guard. An event of the guard's own has one already.
    if (is_sent && own_ == nullptr) real::clRetainEvent(*event_);
    return command_sent(command_, queue_, is_sent ? *event_ : nullptr);
  }
  auto* const data = reinterpret_cast<void*>(static_cast<std::intptr_t>(place_));
  if (!is_sent || real::clSetEventCallback(*event_, kComplete, is_over, data) != kSuccess)
    command_ends(place_);
  if (is_sent && own_ != nullptr) real::clReleaseEvent(own_);
}

/// Call it in a forked child, which has none of the parent's commands.
void forget_time() {
  forget_shares();
  for (Busy& busy : g_busy) busy = {};
  make_fresh(g_lock);
}

}  // namespace berth::guard::cl
