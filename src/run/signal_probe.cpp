#include "run/signal_probe.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include "run/channel.hpp"
#include "run/descendants.hpp"
#include "run/launch.hpp"

namespace berth::run {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Answer {
  std::uint64_t question = 0;  // number of the request
  std::uint64_t seen = 0;      // bit N-1: signal N came since the last answer
};

/// The probe's main loop. A request is a sequence number; the answer contains the signals that came
/// since the last answer.
[[noreturn]] void stand_by(pid_t front, int channel) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, kSignalProbeName);
  redirect_standard_streams(0, 2);
  close_all_but({channel});
  pollfd wait{channel, POLLIN, 0};
  while (::getppid() == front && ::poll(&wait, 1, -1) > 0) {
    Answer answer;
    const int got = receive(channel, answer.question);
    if (got < 0) break;
    if (got == 0) continue;
    answer.seen = pending_signals();
    sigset_t taken;
    ::sigemptyset(&taken);
    for (int signal = 1; signal <= 64; ++signal)
      if ((answer.seen >> (signal - 1) & 1) != 0) ::sigaddset(&taken, signal);
    const timespec now{};
    while (::sigtimedwait(&taken, nullptr, &now) > 0) {
    }
    if (!send(channel, answer)) break;
  }
  ::_exit(0);
}

}  // namespace

SignalProbe::SignalProbe() {
  auto channel = make_channel();
  if (!channel) return;
  const pid_t front = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    channel->front.reset();
    stand_by(front, channel->keeper.get());
  }
  if (pid_ > 0) channel_ = std::move(channel->front);
}

SignalProbe::~SignalProbe() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool SignalProbe::ask() {
  if (!channel_ || !send(channel_.get(), ++questions_)) return false;
  Answer answer;
  while (answer.question != questions_) {
    pollfd wait{channel_.get(), POLLIN, 0};
    if (::poll(&wait, 1, 50) <= 0) {
      // If the probe is not stopped, it has only not run yet on a busy machine, so keep waiting. If
      // it was stopped together with the group, its answer comes too late to count.
      const auto stat = read_stat("/proc", pid_);
      if (stat && stat->state != 'T') continue;
      ::kill(pid_, SIGCONT);
      return false;
    }
    if (receive(channel_.get(), answer) <= 0) return false;
  }
  const auto now = Clock::now();
  for (std::size_t signal = 1; signal <= 64; ++signal)
    if ((answer.seen >> (signal - 1) & 1) != 0) seen_at_.at(signal) = now;
  return true;
}

bool SignalProbe::saw(int signal) {
  auto& seen_at = seen_at_.at(static_cast<std::size_t>(signal));
  const auto fresh = [&] { return Clock::now() - seen_at < milliseconds(500); };
  // A sender that signals every process of a job by pid may reach the front first, so check twice.
  for (int look = 0; look < 2; ++look) {
    if (look > 0) ::usleep(3000);
    if (!fresh() && !ask()) return false;
    if (!fresh()) continue;
    seen_at = {};
    return true;
  }
  return false;
}

}  // namespace berth::run
