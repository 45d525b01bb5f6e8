#include "run/nursery.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/text.hpp"
#include "run/descendants.hpp"
#include "run/launch.hpp"
#include "run/own_name.hpp"
#include "run/queued.hpp"

namespace berth::run {
namespace {

constexpr std::size_t kLongestPath = 4096;

struct Born {
  std::int32_t pid = -1;
  std::int32_t error = 0;
};

Error cannot(int problem) {
  return {ErrorCode::kUnavailable, "E0512",
          text("cannot start the job: {}", ::strerrordesc_np(problem)), ""};
}

[[noreturn]] void nurse(int channel) {
  ::setsid();  // a Ctrl-C is for the broker
  call_oneself("berth-nursery");
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  ::signal(SIGCHLD, SIG_IGN);  // nobody waits for keepers: their folders tell
  // A keeper is born with what ends it blocked: who cancels at once must not kill it before it can
  // end its job in order.
  sigset_t blocked;
  ::sigemptyset(&blocked);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&blocked, number);
  ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  close_all_but({channel});
  let_go_of_standard_streams(0, 2);
  std::array<char, kLongestPath> path;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (;;) {
    const ssize_t n = ::recv(channel, path.data(), path.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) ::_exit(0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(channel);
      keep_queued(std::string(path.data(), static_cast<std::size_t>(n)));
    }
    const Born born{child, child < 0 ? errno : 0};
    if (::send(channel, &born, sizeof born, MSG_NOSIGNAL) < 0) ::_exit(0);
  }
}

}  // namespace

Result<Nursery> Nursery::start() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return cannot(errno);
  Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return cannot(errno);
  if (child == 0) {
    ours.reset();
    nurse(theirs.get());
  }
  return Nursery(std::move(ours));
}

Result<model::ProcessId> Nursery::keep(const std::string& job_folder) {
  if (job_folder.size() >= kLongestPath) return cannot(ENAMETOOLONG);
  if (::send(channel_.get(), job_folder.data(), job_folder.size(), MSG_NOSIGNAL) < 0)
    return cannot(errno);
  Born born;
  ssize_t n = -1;
  while ((n = ::recv(channel_.get(), &born, sizeof born, 0)) < 0 && errno == EINTR) {
  }
  if (n != static_cast<ssize_t>(sizeof born)) return cannot(EPIPE);
  if (born.pid < 0) return cannot(born.error);
  const auto stat = read_stat("/proc", born.pid);
  return model::ProcessId{born.pid, stat ? stat->start_ticks : 0};
}

}  // namespace berth::run
