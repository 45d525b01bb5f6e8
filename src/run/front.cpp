#include "run/front.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "run/channel.hpp"
#include "run/descendants.hpp"
#include "run/ending.hpp"
#include "run/job_folder.hpp"
#include "run/keeper.hpp"
#include "run/signal_probe.hpp"

namespace berth::run {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// A killed command may leave the terminal without echo. A shell repairs that only if its own child
/// died of a signal. This process ends with an exit code instead, so it restores the settings
/// itself.
class TerminalSettings {
 public:
  TerminalSettings()
      : terminal_(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)),
        saved_(terminal_ && ::tcgetattr(terminal_.get(), &settings_) == 0) {}
  void restore() const {
    if (saved_ && ::tcgetpgrp(terminal_.get()) == ::getpgrp())
      ::tcsetattr(terminal_.get(), TCSANOW, &settings_);
  }

 private:
  Descriptor terminal_;
  termios settings_{};
  bool saved_;
};

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

/// Explains why exec failed. For a missing interpreter, errno alone says that the file is missing.
Error not_executed(const std::string& command, int problem) {
  const bool is_path = command.find('/') != std::string::npos;
  const std::string shown = printable(command);
  const std::string by_python =
      command.size() > 3 && command.substr(command.size() - 3) == ".py" && exists(command)
          ? "berth run -- python " + shown
          : "";
  if (problem == ENOENT && is_path && exists(command)) {
    return {ErrorCode::kPermissionDenied, "E0511",
            text("cannot execute {}: the interpreter in its first line does not exist", shown),
            "head -n 1 " + shown};
  }
  if (problem == ENOENT)
    return {ErrorCode::kNotFound, "E0510", text("there is no command {}", shown),
            by_python.empty() ? "command -v " + shown + "; echo \"$PATH\"" : by_python};
  const bool script = problem == EACCES && slurp(command, 2) == "#!";
  return {ErrorCode::kPermissionDenied, "E0511",
          text("cannot execute {}: {}", shown, error_words(problem)),
          by_python.empty() ? (script ? "chmod +x " : "ls -ld ") + shown : by_python};
}

class Front {
 public:
  Front(const Launch& launch, Inherited& inherited, Watcher& watcher)
      : launch_(launch), inherited_(inherited), watcher_(watcher) {}

  Result<Ending> run() {
    block_signals(inherited_);
    auto channel = make_channel();
    sigset_t all;
    ::sigfillset(&all);
    signals_.reset(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!channel || !signals_) return cannot_start(errno);
    // If the keeper is killed, its processes become our children.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    start_ = Clock::now();
    const pid_t self = ::getpid();
    keeper_ = ::fork();
    if (keeper_ < 0) return cannot_start(errno);
    if (keeper_ == 0) {
      channel->front.reset();
      keep(launch_, inherited_, watcher_, self, std::move(channel->keeper));
    }
    signal_probe_.emplace();
    channel_ = std::move(channel->front);
    channel->keeper.reset();
    if (launch_.enclosed) watcher_.born(keeper_);
    send(channel_.get(), Greeting{signal_probe_->pid()});
    if (!launch_.may_start_again) {
      close_inherited(inherited_);
      redirect_standard_streams(0, 1);
    }
    while (!finished_ && !keeper_lost_) wait_and_act();
    if (keeper_lost_) clean_up_after_the_keeper();
    ::waitpid(keeper_, nullptr, 0);
    if (ending_.outcome.signal || keeper_lost_) terminal_.restore();
    return result();
  }

 private:
  static Error cannot_start(int problem) {
    const std::string hint = problem == EAGAIN   ? text("ulimit -u    (the limit of processes)")
                             : problem == ENOMEM ? text("free -h    (free memory)")
                             : problem == EMFILE || problem == ENFILE
                                 ? text("ulimit -n    (the limit of open files)")
                                 : std::string();
    return {ErrorCode::kUnavailable, "E0512",
            text("cannot start the job: {}", error_words(problem)), hint};
  }

  Result<Ending> result() const {
    if (not_started_ && not_started_->pid == 0) return cannot_start(not_started_->value);
    if (not_started_) return not_executed(launch_.command.front(), not_started_->value);
    if (keeper_lost_ && !exited_) {
      return Error{ErrorCode::kUnavailable, "E0513",
                   text("the process that supervised the job was killed, so the job was ended"),
                   text("sudo dmesg | tail    (did memory run out?)")};
    }
    return ending_;
  }

  void wait_and_act() {
    std::array<pollfd, 3> waits{{{channel_.get(), POLLIN, 0},
                                 {signals_.get(), POLLIN, 0},
                                 {started_ ? watcher_.descriptor() : -1, POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), time_left());
    if (waits[1].revents != 0) take_signals();
    if (waits[0].revents != 0) hear();
    if (watching() && (waits[2].revents != 0 || Clock::now() >= watcher_.due())) watcher_.look();
  }

  [[nodiscard]] bool watching() const { return started_ && !exited_ && !keeper_lost_; }

  [[nodiscard]] int time_left() const {
    if (!watching()) return -1;
    const auto left = std::chrono::ceil<milliseconds>(watcher_.due() - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
  }

  void take_signals() {
    signalfd_siginfo info = {};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      hand_on(info);
  }

  void hand_on(const signalfd_siginfo& info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD || signal == SIGPIPE) return;
    // The keeper's SIGCONT only wakes us; it is not meant for the job.
    if (signal == SIGCONT && static_cast<pid_t>(info.ssi_pid) == keeper_) return;
    // If the whole group was stopped before the keeper left it, continue the keeper too.
    if (signal == SIGCONT) {
      continued_ = true;
      ::kill(keeper_, SIGCONT);
    }
    Order order;
    order.signal = signal;
    order.seen_by_group = signal_probe_->saw(signal) ? 1 : 0;
    if (signal == SIGINT && info.ssi_code == SI_KERNEL) interrupt_ = true;
    if (info.ssi_code == SI_QUEUE) {
      order.queued = 1;
      static_assert(sizeof order.value == sizeof info.ssi_ptr);
      std::memcpy(&order.value, &info.ssi_ptr, sizeof order.value);
    }
    send(channel_.get(), order);
  }

  void hear() {
    Event event;
    for (;;) {
      const int got = receive(channel_.get(), event);
      if (got == 0) return;
      if (got < 0) {
        keeper_lost_ = !finished_;
        return;
      }
      act_on(event);
    }
  }

  void act_on(const Event& event) {
    switch (event.kind) {
      case Event::Kind::kStarted:
        started_ = true;
        watcher_.started(keeper_, event.pid);
        return;
      case Event::Kind::kNotStarted:
        not_started_ = event;
        return;
      case Event::Kind::kUnpinned:
        ending_.pin_error = event.value;
        return;
      case Event::Kind::kStopped:
        stop_with(event.pid, event.value);
        send(channel_.get(), Order{});
        return;
      case Event::Kind::kContinued:
        return;
      case Event::Kind::kExited:
        note_exit(event.value);
        if (started_) watcher_.ended();
        return;
      case Event::Kind::kLeft:
        ending_.left_behind.push_back(
            {event.pid,
             printable(std::string_view(event.words.data(),
                                        ::strnlen(event.words.data(), event.words.size())))});
        return;
      case Event::Kind::kStuck:
        if (const auto stat = read_stat("/proc", event.pid))
          ending_.stuck.push_back({event.pid, stat->start_ticks});
        return;
      case Event::Kind::kFinished:
        finished_ = true;
        ending_.left = event.value;
        ending_.cpu = milliseconds(event.cpu_microseconds / 1000);
        ending_.checkpoint = event.checkpoint;
        ending_.peak_rss_bytes = static_cast<std::uint64_t>(event.peak_rss_kib) * 1024;
        return;
    }
  }

  /// When we stop, the shell takes the terminal back. So we stop only when the job has stopped, by
  /// the same signal.
  void stop_with(pid_t workload, int signal) {
    // Stopping this process discards a pending SIGCONT. So first handle a SIGCONT that has arrived
    // in the meantime.
    continued_ = false;
    take_signals();
    if (continued_) return;
    const auto stat = read_stat("/proc", workload);
    if (!stat || (stat->state != 'T' && stat->state != 't'))
      return;  // the process has been continued already
    struct sigaction action = {};
    ::sigaction(signal, nullptr, &action);
    if (signal == SIGSTOP || action.sa_handler != SIG_DFL) {
      ::raise(SIGSTOP);
      return;
    }
    // This signal is raised while it is blocked, so it merges with a pending one from the terminal.
    // The process then stops once, not twice.
    ::raise(signal);
    sigset_t only;
    sigset_t before;
    ::sigemptyset(&only);
    ::sigaddset(&only, signal);
    ::pthread_sigmask(SIG_UNBLOCK, &only, &before);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void note_exit(int status) {
    exited_ = true;
    ending_.wall = std::chrono::duration_cast<milliseconds>(Clock::now() - start_);
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      ending_.outcome = {model::OutcomeClass::kSignal, 128 + signal, signal};
      ending_.interrupted = interrupt_ && signal == SIGINT;
      return;
    }
    const int code = WEXITSTATUS(status);
    ending_.outcome = {code == 0 ? model::OutcomeClass::kOk : model::OutcomeClass::kFailed, code,
                       std::nullopt};
  }

  void clean_up_after_the_keeper() const {
    EndingPlan plan;
    plan.spared = {signal_probe_->pid()};
    plan.none_left = [this] { return reap_strangers(); };
    plan.wait = [](milliseconds most) {
      ::poll(nullptr, 0, static_cast<int>(std::min<std::int64_t>(most.count(), 10)));
      return false;
    };
    ::prctl(PR_SET_NAME, "berth");
    static_cast<void>(end_descendants(plan));
  }

  /// Reaps processes that became our children. Returns true if no process is left.
  [[nodiscard]] bool reap_strangers() const {
    const pid_t self = ::getpid();
    for (;;) {
      bool none = true, reaped = false;
      for (const Relative& one : descendants_except({signal_probe_->pid()})) {
        const bool is_gone =
            one.stat.parent == self && ::waitpid(one.pid, nullptr, WNOHANG | __WALL) == one.pid;
        (is_gone ? reaped : none) = is_gone;
      }
      // After a child was reaped, its children become ours. The list may lack some of them, so scan
      // again.
      if (!reaped) return none;
    }
  }

  const Launch& launch_;
  Inherited& inherited_;
  Watcher& watcher_;
  TerminalSettings terminal_;
  std::optional<SignalProbe> signal_probe_;
  Descriptor channel_, signals_;
  pid_t keeper_ = -1;
  Clock::time_point start_{};
  bool started_ = false, exited_ = false, finished_ = false, keeper_lost_ = false;
  bool interrupt_ = false, continued_ = false;
  std::optional<Event> not_started_;
  Ending ending_;
};

}  // namespace

Result<Ending> run_job(const Launch& launch, Inherited& inherited, Watcher& watcher) {
  Front front(launch, inherited, watcher);
  return front.run();
}

void die_of_interrupt() {
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, SIGINT);
  ::raise(SIGINT);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
}

}  // namespace berth::run
