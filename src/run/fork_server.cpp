#include "run/fork_server.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "run/descendants.hpp"
#include "run/launch_record.hpp"
#include "run/own_name.hpp"
#include "run/queued.hpp"
#include "run/warning.hpp"

namespace berth::run {
namespace {

constexpr std::uint32_t kLongestMessage = 8U << 20U;

struct Born {
  std::int32_t pid = -1;
  std::int32_t error = 0;
};

/// Reads exactly `size` bytes, despite interruptions; false if the other side has closed.
bool receive(int channel, void* into, std::size_t size) {
  auto* bytes = static_cast<char*>(into);
  while (size > 0) {
    const ssize_t n = ::recv(channel, bytes, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

bool send_all(int channel, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(channel, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

Error cannot(int problem) {
  return {ErrorCode::kUnavailable, "E0512", text("cannot start the job: {}", error_words(problem)),
          ""};
}

/// Runs as long as the broker, and afterwards until the last keeper ends. It is the subreaper of
/// the keepers: if SIGKILL ends a keeper, the processes of its job become our children, and we end
/// them. The processes that watch other jobs are our children too. They announce themselves, so
/// that we do not end them.
class ForkServerLoop {
 public:
  ForkServerLoop(int channel, sigset_t blocked, const WriteReport& write)
      : channel_(channel), blocked_(blocked), write_(write) {
    signals_.reset(::signalfd(-1, &blocked_, SFD_CLOEXEC | SFD_NONBLOCK));
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0) {
      announced_.reset(ends[0]);
      announce_.reset(ends[1]);
    }
  }

  void work() {
    while (channel_ >= 0 || !keepers_.empty() || sweeps_ > 0) {
      std::array<pollfd, 2> waits{{{channel_, POLLIN, 0}, {signals_.get(), POLLIN, 0}}};
      constexpr int kPause = 10;
      ::poll(waits.data(), waits.size(), sweeps_ > 0 ? kPause : -1);
      if (waits[1].revents != 0) reap();
      if (sweeps_ > 0) sweep();
      if (waits[0].revents != 0) bear();
    }
  }

 private:
  void bear() {
    std::uint32_t size = 0;
    std::string message;
    if (!receive(channel_, &size, sizeof size) || size > kLongestMessage) return close_channel();
    message.resize(size);
    if (!receive(channel_, message.data(), size)) return close_channel();
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(channel_);
      signals_.reset();
      announced_.reset();
      // Three strings come before the launch record, each with a NUL. They are not part of the
      // launch record in the journal.
      const std::string_view all(message);
      const auto locks = all.find('\0');
      const auto units = locks == all.npos ? all.npos : all.find('\0', locks + 1);
      const auto job = units == all.npos ? all.npos : all.find('\0', units + 1);
      if (job == all.npos) ::_exit(1);
      auto launch = launch_in(all.substr(job + 1));
      if (!launch) ::_exit(1);
      for (const std::string_view file : split(all.substr(0, locks), '\n'))
        if (!file.empty()) launch->locks.emplace_back(file);
      for (const std::string_view unit : split(all.substr(locks + 1, units - locks - 1), '\n'))
        if (!unit.empty()) launch->units.emplace_back(unit);
      launch->job_record = all.substr(units + 1, job - units - 1);
      keep_queued(*launch, write_, announce_.get());
    }
    if (child > 0) keepers_.push_back(child);
    const Born born{child, child < 0 ? errno : 0};
    if (!send_all(channel_, {reinterpret_cast<const char*>(&born), sizeof born})) close_channel();
  }

  void close_channel() {
    ::close(channel_);
    channel_ = -1;
  }

  /// Reaps ended keepers, because no other process waits for them. Their exit status is not needed:
  /// the jobs' files record how the jobs ended.
  void reap() {
    signalfd_siginfo ignored;
    while (::read(signals_.get(), &ignored, sizeof ignored) > 0) {
    }
    int status = 0;
    take_announced();
    for (pid_t pid = -1; (pid = ::waitpid(-1, &status, WNOHANG | __WALL)) > 0;) {
      std::erase(watches_, pid);
      const bool in_order = std::erase(keepers_, pid) == 0 || (WIFEXITED(status) != 0);
      constexpr int kMostSweeps =
          500;  // processes that remain after this many sweeps are stuck in the kernel
      if (!in_order) sweeps_ = kMostSweeps;
    }
  }

  /// Ends all processes that have no keeper. Their job is lost, so they get no grace period.
  void sweep() {
    take_announced();
    std::vector<pid_t> spared = keepers_;
    spared.insert(spared.end(), watches_.begin(), watches_.end());
    const auto strays = descendants_except(spared);
    --sweeps_;
    if (strays.empty()) sweeps_ = 0;
    signal_all(strays, SIGKILL);
  }

  void take_announced() {
    pid_t watch = -1;
    while (::read(announced_.get(), &watch, sizeof watch) == sizeof watch)
      watches_.push_back(watch);
  }

  int channel_;
  sigset_t blocked_;
  const WriteReport& write_;
  Descriptor signals_;
  Descriptor announced_, announce_;
  std::vector<pid_t> keepers_, watches_;
  int sweeps_ = 0;  // how many sweeps are left before the fork server gives up
};

[[noreturn]] void serve_forks(int channel, const rlimit& files, const WriteReport& write) {
  ::setsid();  // so that a Ctrl-C in the terminal reaches only the broker
  // A `pkill berth` must not also kill the process that cleans up after it.
  set_process_name("job-fork-server");
  ::setrlimit(RLIMIT_NOFILE, &files);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  // Keepers start with termination signals blocked. Otherwise an early cancel could kill a keeper
  // before it can end its job properly.
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGCHLD);
  add_keeper_signals(blocked);
  ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  close_all_but({channel});
  redirect_standard_streams(0, 2);
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGCHLD);
  ForkServerLoop(channel, blocked, write).work();
  ::_exit(0);
}

Result<Standby> standby_for(const rlimit& files, const WriteReport& write) {
  return Standby::start([files, write](int channel) { serve_forks(channel, files, write); },
                        SOCK_STREAM);
}

/// Asks the fork server for a keeper. Returns {-1, EPIPE} if the fork server has ended.
Born ask(int channel, const std::string& message) {
  Born born{-1, EPIPE};
  if (!send_all(channel, message) || !receive(channel, &born, sizeof born)) return {-1, EPIPE};
  return born;
}

}  // namespace

Result<ForkServer> ForkServer::start(WriteReport write) {
  rlimit files = {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  auto standby = standby_for(files, write);
  if (!standby) return std::move(standby).error();
  auto channel = standby->fork();
  if (!channel) return std::move(channel).error();
  return ForkServer(*std::move(standby), *std::move(channel), files, std::move(write));
}

/// Starts a fork server after the last one was killed.
Result<Descriptor> ForkServer::restart() {
  auto channel = standby_.fork();
  if (channel) return channel;
  // Both the fork server and its standby were killed, so this process forks the next standby
  // itself. It has several threads by now, so the new process could inherit a locked lock and hang.
  // A timeout detects that.
  auto standby = standby_for(files_, write_);
  if (!standby) return std::move(standby).error();
  standby_ = *std::move(standby);
  return standby_.fork();
}

Result<model::ProcessId> ForkServer::keep(const Launch& launch) {
  std::string record;
  for (const std::string& file : launch.locks) record += file + '\n';
  record += '\0';
  for (const std::string& unit : launch.units) record += unit + '\n';
  record += '\0' + launch.job_record + '\0' + record_of(launch);
  if (record.size() > kLongestMessage) return cannot(EMSGSIZE);
  const auto size = static_cast<std::uint32_t>(record.size());
  const std::string message =
      std::string(reinterpret_cast<const char*>(&size), sizeof size) + record;
  Born born = ask(channel_.get(), message);
  if (born.error == EPIPE) {
    auto channel = restart();
    if (!channel) return std::move(channel).error();
    channel_ = *std::move(channel);
    born = ask(channel_.get(), message);
  }
  if (born.pid < 0) return cannot(born.error);
  const auto stat = read_stat("/proc", born.pid);
  return model::ProcessId{born.pid, stat ? stat->start_ticks : 0};
}

}  // namespace berth::run
