// The order of steps matters. The workload must stay in the front's session and process group, so
// that the terminal treats it as if it had been started directly. A child inherits both from its
// parent. So the keeper forks the workload while the keeper itself is still in both. Then the
// keeper moves to its own session, where it remains parent and subreaper. The workload starts its
// command only after that, so that a signal for its group does not also reach the keeper.
//
// A signal for the group may arrive at any of these steps. If it arrives before the keeper was
// forked, only the front receives it, and passes it on. If it arrives before the keeper has left
// the group, the keeper receives it, too. The workload then raises the signal for itself if it was
// not ready for it. The keeper drops the front's later report of the same signal. After that the
// signal probe shows who received a signal. So the keeper leaves the group only when the probe
// exists.
#include "run/keeper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "run/channel.hpp"
#include "run/descendants.hpp"
#include "run/ending.hpp"
#include "run/job_folder.hpp"
#include "run/own_name.hpp"
#include "run/warning.hpp"
#include "run/workload.hpp"

namespace berth::run {
namespace {

using std::chrono::milliseconds;

/// Signals that the front never passes on to the job.
constexpr std::uint64_t kNotPassedOn =
    1ULL << (SIGCHLD - 1) | 1ULL << (SIGPIPE - 1) | 1ULL << (SIGCONT - 1);

/// Whether this signal is an order to end the program: it kills a program without a handler. A
/// warning that must be passed on to the job does not count.
bool is_order_to_end(const Order& order) {
  if (order.queued != 0 && static_cast<int>(order.value) == kPassOn) return false;
  return order.signal == SIGTERM || order.signal == SIGINT || order.signal == SIGHUP ||
         order.signal == SIGQUIT;
}

class Keeper {
 public:
  Keeper(const Launch& launch, const Inherited& inherited, const Watcher& watcher, pid_t front,
         Descriptor channel)
      : launch_(launch),
        inherited_(inherited),
        watcher_(watcher),
        front_(front),
        front_group_(::getpgrp()),
        front_handle_(open_process(front)),
        channel_(std::move(channel)) {}

  void run() {
    // The front (`berth run`) may be dead already. If so, do not start the job.
    if (::getppid() != front_) return;
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t child_signal;
    ::sigemptyset(&child_signal);
    ::sigaddset(&child_signal, SIGCHLD);
    child_events_.reset(::signalfd(-1, &child_signal, SFD_CLOEXEC | SFD_NONBLOCK));
    if (launch_.enclosed ? !greeted() || !start() : !start() || !greeted()) return;
    ::setsid();
    early_ = pending_signals() & ~kNotPassedOn;
    [[maybe_unused]] const ssize_t told = ::write(go_.get(), &early_, sizeof early_);
    go_.reset();
    listen_for_the_end();
    // A `pkill berth` must not also kill the keeper, or the job would remain.
    set_process_name("job-keeper of " + std::to_string(front_));
    redirect_standard_streams(0, 2);
    close_all_but({child_events_.get(), front_handle_.get(), signal_probe_handle_.get(),
                   channel_.get(), trouble_.get(), end_requests_.get()});
    [[maybe_unused]] const int left =
        ::chdir("/");  // if chdir() fails, only the file system of this folder stays busy
    while (!ended_ && front_alive_ && !told_to_end_) wait_and_act();
    end_the_rest();
  }

 private:
  bool start() {
    std::array<int, 2> trouble{-1, -1};
    std::array<int, 2> go{-1, -1};
    if (!child_events_ || ::pipe2(trouble.data(), O_CLOEXEC) != 0 ||
        ::pipe2(go.data(), O_CLOEXEC) != 0)
      return cannot_start();
    trouble_.reset(trouble[0]);
    go_.reset(go[1]);
    const Descriptor says(trouble[1]);
    const Descriptor waits(go[0]);
    const pid_t self = ::getpid();
    workload_ = ::fork();
    if (workload_ == 0) {
      go_.reset();
      become_workload(launch_, inherited_, self, waits.get(), says.get());
    }
    return workload_ > 0 || cannot_start();
  }

  /// A SIGTERM to the keeper alone comes from the broker: the job was cancelled, or its time limit
  /// is over. A SIGTERM that arrived while we were in the front's group was meant for the front.
  void listen_for_the_end() {
    sigset_t end;
    ::sigemptyset(&end);
    add_keeper_signals(end);
    const timespec now{};
    while (::sigtimedwait(&end, nullptr, &now) > 0) {
    }
    end_requests_.reset(::signalfd(-1, &end, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  void hear_the_broker() {
    signalfd_siginfo one;
    while (::read(end_requests_.get(), &one, sizeof one) == sizeof one)
      if (is_to_be_passed_on(one))
        warn(static_cast<int>(one.ssi_signo));
      else if (one.ssi_signo == SIGTERM)
        told_to_end_ = true;
  }

  void warn(int signal) {
    wait_for_the_start(trouble_, [this] { hear_of_the_start(); });
    if (signal == checkpoint_.signal())
      static_cast<void>(checkpoint_.send());
    else
      static_cast<void>(warn_descendants(signal));
  }

  bool cannot_start() {
    send(channel_.get(), Event{Event::Kind::kNotStarted, 0, errno});
    send(channel_.get(), Event{Event::Kind::kFinished});
    return false;
  }

  bool greeted() {
    Greeting greeting;
    pollfd wait{channel_.get(), POLLIN, 0};
    int got = 0;
    while ((got = receive(channel_.get(), greeting)) == 0) ::poll(&wait, 1, -1);
    if (got > 0) signal_probe_handle_ = open_process(greeting.signal_probe);
    return got > 0;
  }

  void wait_and_act() {
    std::array<pollfd, 5> waits{{{child_events_.get(), POLLIN, 0},
                                 {front_handle_.get(), POLLIN, 0},
                                 {channel_.get(), POLLIN, 0},
                                 {trouble_.get(), POLLIN, 0},
                                 {end_requests_.get(), POLLIN, 0}}};
    const bool front_may_sleep = stops_told_ > 0 && !stopped_;
    if (::poll(waits.data(), waits.size(), front_may_sleep ? 20 : -1) < 0) return;
    if (front_may_sleep) wake_front();
    if (waits[3].revents != 0) hear_of_the_start();
    if (waits[2].revents != 0) obey();
    if (waits[1].revents != 0) front_alive_ = false;
    if (waits[4].revents != 0) hear_the_broker();
    if (waits[0].revents != 0) reap();
  }

  /// If the pipe closes without an error, the command runs.
  void hear_of_the_start() {
    const auto trouble = next_trouble(trouble_);
    if (!trouble) {
      trouble_.reset();
      if (!not_started_) send(channel_.get(), Event{Event::Kind::kStarted, workload_, 0});
      return;
    }
    not_started_ = trouble->step == StartTrouble::Step::kExec;
    send(channel_.get(), Event{not_started_ ? Event::Kind::kNotStarted : Event::Kind::kUnpinned,
                               workload_, trouble->error});
  }

  void obey() {
    Order order;
    for (;;) {
      const int got = receive(channel_.get(), order);
      if (got == 0) return;
      if (got < 0) {
        front_alive_ = false;
        return;
      }
      if (order.signal == 0)
        --stops_told_;
      else if (!ended_)
        pass_on(order);
    }
  }

  void pass_on(const Order& order) {
    if (order.queued != 0 && static_cast<int>(order.value) == kPassOn) return warn(order.signal);
    if (order.signal == SIGTERM && checkpoint_.is_wanted() && order.seen_by_group == 0) {
      told_to_end_ = true;
      return;
    }
    const std::uint64_t bit = std::uint64_t{1} << (order.signal - 1);
    if ((early_ & bit) != 0) {
      early_ &= ~bit;
      return;
    }
    const pid_t group = ::getpgid(workload_);
    // A workload in the front's group has already received a signal that was sent to the whole
    // group.
    if (order.seen_by_group != 0 && group == front_group_) return;
    if (order.queued != 0) {
      sigval value{};
      std::memcpy(&value, &order.value, sizeof value);
      ::sigqueue(workload_, order.signal, value);
    } else if (order.seen_by_group != 0 && group == workload_) {
      // The workload has its own process group. The signal was sent to the front's whole group, so
      // send it to the workload's whole group.
      ::kill(-workload_, order.signal);
    } else {
      ::kill(workload_, order.signal);
    }
  }

  /// The front stops itself when it learns that the workload has stopped. If the workload was
  /// continued or ended just before that, the front would stay stopped for ever. So wake it until
  /// it reports that it runs.
  void wake_front() const {
    const auto stat = read_stat("/proc", front_);
    if (stat && stat->state == 'T') ::kill(front_, SIGCONT);
  }

  void reap() {
    signalfd_siginfo ignored;
    while (::read(child_events_.get(), &ignored, sizeof ignored) > 0) {
    }
    static_cast<void>(reap_all());
  }

  /// Reaps ended children. Returns true if there are no more children, so all processes of the job
  /// have ended.
  bool reap_all() {
    for (;;) {
      int status = 0;
      rusage used = {};
      const pid_t pid = ::wait4(-1, &status, WNOHANG | WUNTRACED | WCONTINUED | __WALL, &used);
      if (pid < 0 && errno == EINTR) continue;
      if (pid <= 0) return pid < 0;
      if (WIFEXITED(status) || WIFSIGNALED(status)) count(used);
      if (pid == workload_) tell(status);
    }
  }

  void count(const rusage& used) {
    const auto microseconds = [](const timeval& t) {
      return static_cast<std::int64_t>(t.tv_sec) * 1'000'000 + t.tv_usec;
    };
    cpu_microseconds_ += microseconds(used.ru_utime) + microseconds(used.ru_stime);
    peak_rss_kib_ = std::max<std::int64_t>(peak_rss_kib_, used.ru_maxrss);
  }

  void tell(int status) {
    stopped_ = WIFSTOPPED(status);
    if (stopped_) {
      ++stops_told_;
      send(channel_.get(), Event{Event::Kind::kStopped, workload_, WSTOPSIG(status)});
    } else if (WIFCONTINUED(status)) {
      send(channel_.get(), Event{Event::Kind::kContinued, workload_, 0});
      wake_front();
    } else {
      ended_ = true;
      exited_ = WIFEXITED(status);
      checkpoint_.finish(true);
      while (trouble_) hear_of_the_start();
      if (!not_started_) write_status(launch_.job_folder, workload_, status);
      send(channel_.get(), Event{Event::Kind::kExited, workload_, status});
    }
  }

  void end_the_rest() {
    EndingPlan plan;
    if (told_to_end_) {
      wait_for_the_start(trouble_, [this] { hear_of_the_start(); });
      plan = checkpoint_.plan_of_end(launch_.grace, ended_);
    }
    plan.none_left = [this] { return reap_all(); };
    plan.wait = [this](milliseconds most) { return wait_for_end(most); };
    // If the job was cancelled, or its terminal is gone, no message about remaining processes is
    // needed.
    if (ended_ && !told_to_end_ && front_alive_ && !not_started_) {
      plan.head_start = launch_.head_start;
      plan.on_left_behind = [this](const std::vector<Relative>& found) { name(found); };
    }
    const int left = end_descendants(plan);
    const auto stuck = left > 0 ? stuck_descendants(plan.spared) : std::vector<model::ProcessId>();
    for (const model::ProcessId& one : stuck)
      send(channel_.get(), Event{Event::Kind::kStuck, static_cast<std::int32_t>(one.pid)});
    if (told_to_end_ || !front_alive_ || !exited_) remove_container();
    Event last{Event::Kind::kFinished, workload_, left};
    last.cpu_microseconds = cpu_microseconds_;
    last.peak_rss_kib = peak_rss_kib_;
    last.checkpoint = checkpoint_.result();
    send(channel_.get(), last);
    while (front_alive_ && stops_told_ > 0) wait_and_act();
    if (front_alive_) return;
    if (!stuck.empty()) watcher_.stuck_without_front(stuck);
    ::syscall(SYS_pidfd_send_signal, signal_probe_handle_.get(), SIGKILL, nullptr, 0);
    remove_job_folder(launch_.job_folder);
  }

  /// The processes of a docker container are not descendants of this process. Docker also does not
  /// remove a container that was killed.
  void remove_container() const {
    constexpr int kTries = 1000;
    if (launch_.remove_container.empty()) return;
    const pid_t pid = ::fork();
    if (pid == 0) {
      sigset_t none;
      ::sigemptyset(&none);
      ::sigprocmask(SIG_SETMASK, &none, nullptr);
      std::vector<char*> words, variables;
      for (const std::string& word : launch_.remove_container)
        words.push_back(const_cast<char*>(word.c_str()));
      for (const std::string& one : launch_.environment)
        variables.push_back(const_cast<char*>(one.c_str()));
      words.push_back(nullptr);
      variables.push_back(nullptr);
      ::execve(words[0], words.data(), variables.data());
      ::_exit(127);
    }
    if (pid < 0) return;
    for (int i = 0; i < kTries && ::waitpid(pid, nullptr, WNOHANG) == 0; ++i) ::usleep(10'000);
    ::kill(pid, SIGKILL);
  }

  void name(const std::vector<Relative>& found) {
    constexpr int kMost = 8;
    int named = 0;
    for (const Relative& one : found) {
      if (one.stat.state == 'Z' || one.stat.state == 'X') continue;
      Event event{Event::Kind::kLeft, one.pid};
      const std::string words = named++ < kMost ? command_of(one.pid) : "";
      words.copy(event.words.data(), event.words.size() - 1);
      send(channel_.get(), event);
    }
  }

  /// Waits for the end of processes. Returns true if the job must end faster, because the user sent
  /// a second signal.
  bool wait_for_end(milliseconds most) {
    std::array<pollfd, 2> waits{
        {{child_events_.get(), POLLIN, 0}, {front_alive_ ? channel_.get() : -1, POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), static_cast<int>(most.count()));
    signalfd_siginfo ignored;
    while (::read(child_events_.get(), &ignored, sizeof ignored) > 0) {
    }
    if (waits[1].revents == 0) return false;
    Order order;
    const int got = receive(channel_.get(), order);
    if (got < 0) front_alive_ = false;
    if (got > 0 && order.signal == 0) --stops_told_;
    if (got <= 0 || order.signal == 0) return false;
    if (is_order_to_end(order)) return true;
    if (!ended_) pass_on(order);
    return false;
  }

  const Launch& launch_;
  const Inherited& inherited_;
  const Watcher& watcher_;
  pid_t front_;
  pid_t front_group_;
  Descriptor front_handle_, signal_probe_handle_, channel_, child_events_, trouble_, go_,
      end_requests_;
  Checkpoint checkpoint_{launch_.checkpoint};
  pid_t workload_ = -1;
  bool front_alive_ = true, ended_ = false, not_started_ = false, stopped_ = false,
       told_to_end_ = false, exited_ = false;
  int stops_told_ = 0;  // number of stops reported to the front and not yet acknowledged
  // bit N-1: the workload has already received signal N; the front will report it later
  std::uint64_t early_ = 0;
  std::int64_t cpu_microseconds_ = 0, peak_rss_kib_ = 0;
};

}  // namespace

void keep(const Launch& launch, const Inherited& inherited, const Watcher& watcher, pid_t front,
          Descriptor channel) {
  {
    Keeper keeper(launch, inherited, watcher, front, std::move(channel));
    keeper.run();
  }
  ::_exit(0);
}

}  // namespace berth::run
