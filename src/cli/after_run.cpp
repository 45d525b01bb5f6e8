#include "cli/after_run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <vector>

#include "base/descriptor.hpp"
#include "base/environment_variables.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "output/terminal.hpp"
#include "system/terminals.hpp"

namespace berth::cli {
namespace {

using std::chrono::milliseconds;
using Words = std::vector<std::string>;

constexpr std::array kEnds{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/// Waits until the program ends, and passes the signals in kEnds on to its process group. Kills the
/// group after the time `most`.
void wait_for(pid_t pid, int signals, milliseconds most) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + most;
  const Descriptor ended(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  while (ended) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    if (left <= 0) break;
    std::array<pollfd, 2> waits{{{ended.get(), POLLIN, 0}, {signals, POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), static_cast<int>(left)) < 0) continue;  // EINTR
    if (waits[0].revents != 0) return;
    signalfd_siginfo one;
    while (waits[1].revents != 0 && ::read(signals, &one, sizeof one) == sizeof one)
      ::kill(-pid, static_cast<int>(one.ssi_signo));
  }
  ::kill(-pid, SIGKILL);
}

/// Runs a program. Its output goes to this process's stderr if `is_shown`, or is discarded. All
/// signals have their default handling. After the time `most`, the program and all processes that
/// it started are killed.
void run_program(const Words& words, const Words& variables, bool is_shown, milliseconds most) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  sigset_t ends;
  sigset_t before;
  ::sigemptyset(&ends);
  for (const int signal : kEnds) ::sigaddset(&ends, signal);
  ::pthread_sigmask(SIG_BLOCK, &ends, &before);
  const Descriptor signals(::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  // Discard signals that arrived before the program started, because they were meant for the job.
  signalfd_siginfo old;
  while (signals && ::read(signals.get(), &old, sizeof old) == sizeof old) {
  }
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    for (const int signal : kEnds) ::signal(signal, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(null, 0);
    // Do not use stdout: it is the output of the job's command, so a program that reads it expects
    // nothing else.
    ::dup2(is_shown ? 2 : null, 1);
    if (!is_shown) ::dup2(null, 2);
    for (const std::string& one : variables) ::putenv(const_cast<char*>(one.c_str()));
    ::execvp(arguments.front(), arguments.data());
    ::_exit(127);
  }
  if (pid > 0) {
    // Both the parent and the child set the process group. So it exists before either of them
    // continues.
    ::setpgid(pid, pid);
    wait_for(pid, signals.get(), most);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

std::string own_name() {
  std::array<char, 4096> room{};
  passwd entry{};
  passwd* found = nullptr;
  const int problem = ::getpwuid_r(::geteuid(), &entry, room.data(), room.size(), &found);
  return problem == 0 && found != nullptr ? entry.pw_name : "";
}

void tell(const std::string& sentence) {
  for (const std::string& one : system::terminals_of({}, system::kUtmp, ::getpid(), own_name()))
    if (!one.empty()) static_cast<void>(system::tell_terminal(one, ::geteuid(), sentence));
  if (env_nonempty("DBUS_SESSION_BUS_ADDRESS"))
    run_program({"notify-send", "--app-name=berth", "--", "berth", sentence}, {}, false,
                milliseconds(2000));
}

}  // namespace

void AfterRun::act(const model::Outcome& outcome, milliseconds wall) const {
  if (notify)
    tell(text("berth: {} ended with exit code {} after {}", output::clip(printable(name), 60),
              outcome.exit_code, show_duration(wall)));
  if (on_end.empty()) return;
  const bool is_told = outcome.kind == model::OutcomeClass::kCancelled ||
                       outcome.kind == model::OutcomeClass::kTimeLimit;
  run_program({"/bin/sh", "-c", on_end},
              {"BERTH_EXIT_CODE=" + std::to_string(outcome.exit_code),
               std::string("BERTH_ENDED=") + (is_told ? "told" : "itself")},
              true, std::chrono::minutes(1));
}

}  // namespace berth::cli
