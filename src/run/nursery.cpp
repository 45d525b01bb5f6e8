#include "run/nursery.hpp"

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

namespace berth::run {
namespace {

constexpr std::uint32_t kLongestMessage = 4U << 20U;

struct Born {
  std::int32_t pid = -1;
  std::int32_t error = 0;
};

/// All of it, however often we are interrupted; false where nobody is there any more.
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

/// Lives as long as the broker, and then as long as its keepers. It is the subreaper above them:
/// what loses its keeper to a SIGKILL comes to it, and ends.
class Nurse {
 public:
  Nurse(int channel, sigset_t blocked) : channel_(channel), blocked_(blocked) {
    signals_.reset(::signalfd(-1, &blocked_, SFD_CLOEXEC | SFD_NONBLOCK));
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
      // What is not the job's own, and in no journal, stands before its record.
      const auto locks = message.find('\0');
      auto launch =
          launch_in(std::string_view(message).substr(std::min(locks, message.size() - 1) + 1));
      if (!launch || locks == std::string::npos) ::_exit(1);
      for (const std::string_view file : split(std::string_view(message.data(), locks), '\n'))
        if (!file.empty()) launch->locks.emplace_back(file);
      keep_queued(*launch);
    }
    if (child > 0) keepers_.push_back(child);
    const Born born{child, child < 0 ? errno : 0};
    if (!send_all(channel_, {reinterpret_cast<const char*>(&born), sizeof born})) close_channel();
  }

  void close_channel() {
    ::close(channel_);
    channel_ = -1;
  }

  /// Nobody else waits for keepers: their folders tell how jobs ended.
  void reap() {
    signalfd_siginfo ignored;
    while (::read(signals_.get(), &ignored, sizeof ignored) > 0) {
    }
    int status = 0;
    for (pid_t pid = -1; (pid = ::waitpid(-1, &status, WNOHANG | __WALL)) > 0;) {
      const bool in_order = std::erase(keepers_, pid) == 0 || (WIFEXITED(status) != 0);
      constexpr int kMostSweeps = 500;  // what is left after them sits in the kernel
      if (!in_order) sweeps_ = kMostSweeps;
    }
  }

  /// Ends all that is no keeper's. Their job is lost, and there is nobody to grant them a grace.
  void sweep() {
    const auto strays = descendants_but(keepers_);
    --sweeps_;
    if (strays.empty()) sweeps_ = 0;
    signal_all(strays, SIGKILL);
  }

  int channel_;
  sigset_t blocked_;
  Descriptor signals_;
  std::vector<pid_t> keepers_;
  int sweeps_ = 0;  // still to be made
};

[[noreturn]] void nurse(int channel, const rlimit& files) {
  ::setsid();  // a Ctrl-C is for the broker
  // Whoever kills all that is called "berth" at once must not meet what ends the rest.
  call_oneself("job-nursery");
  ::setrlimit(RLIMIT_NOFILE, &files);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  // A keeper is born with what ends it blocked: who cancels at once must not kill it before it can
  // end its job in order.
  sigset_t blocked;
  ::sigemptyset(&blocked);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::sigaddset(&blocked, number);
  ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  close_all_but({channel});
  let_go_of_standard_streams(0, 2);
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGCHLD);
  Nurse(channel, blocked).work();
  ::_exit(0);
}

Result<Spare> spare_for(const rlimit& files) {
  return Spare::start([files](int channel) { nurse(channel, files); }, SOCK_STREAM);
}

/// {-1, EPIPE}: there is no nurse any more.
Born ask(int channel, const std::string& message) {
  Born born{-1, EPIPE};
  if (!send_all(channel, message) || !receive(channel, &born, sizeof born)) return {-1, EPIPE};
  return born;
}

}  // namespace

Result<Nursery> Nursery::start() {
  rlimit files = {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  auto spare = spare_for(files);
  if (!spare) return std::move(spare).error();
  auto channel = spare->fork();
  if (!channel) return std::move(channel).error();
  return Nursery(*std::move(spare), *std::move(channel), files);
}

/// In place of one that somebody killed.
Result<Descriptor> Nursery::another_nurse() {
  auto channel = spare_.fork();
  if (channel) return channel;
  // Both were killed. The next spare comes of us, who have threads by now: should one of them have
  // held what it waits for, then we are told that it does not answer.
  auto spare = spare_for(files_);
  if (!spare) return std::move(spare).error();
  spare_ = *std::move(spare);
  return spare_.fork();
}

Result<model::ProcessId> Nursery::keep(const Launch& launch) {
  std::string record;
  for (const std::string& file : launch.locks) record += file + '\n';
  record += '\0' + record_of(launch);
  if (record.size() > kLongestMessage) return cannot(EMSGSIZE);
  const auto size = static_cast<std::uint32_t>(record.size());
  const std::string message =
      std::string(reinterpret_cast<const char*>(&size), sizeof size) + record;
  Born born = ask(channel_.get(), message);
  if (born.error == EPIPE) {
    auto channel = another_nurse();
    if (!channel) return std::move(channel).error();
    channel_ = *std::move(channel);
    born = ask(channel_.get(), message);
  }
  if (born.pid < 0) return cannot(born.error);
  const auto stat = read_stat("/proc", born.pid);
  return model::ProcessId{born.pid, stat ? stat->start_ticks : 0};
}

}  // namespace berth::run
