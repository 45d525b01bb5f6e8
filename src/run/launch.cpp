#include "run/launch.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

namespace berth::run {
namespace {

std::vector<int> open_descriptors() {
  std::vector<int> found;
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) {  // without /proc, try all likely numbers
    for (int fd = 3; fd < 1024; ++fd)
      if (::fcntl(fd, F_GETFD) >= 0) found.push_back(fd);
    return found;
  }
  while (const dirent* entry =
             ::readdir(folder)) {             // NOLINT(concurrency-mt-unsafe): its own stream
    const int fd = std::atoi(entry->d_name);  // NOLINT(cert-err34-c): the kernel's numbers
    if (fd > 2 && fd != ::dirfd(folder)) found.push_back(fd);
  }
  ::closedir(folder);
  std::sort(found.begin(), found.end());
  return found;
}

void mark_range(unsigned first, unsigned last) {
  if (first > last) return;
  if (::close_range(first, last, CLOSE_RANGE_CLOEXEC) == 0) return;
  // CLOSE_RANGE_CLOEXEC needs Linux 5.11. On older kernels, mark the descriptors one by one.
  for (const int fd : open_descriptors())
    if (fd >= static_cast<int>(first) && static_cast<unsigned>(fd) <= last)
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

}  // namespace

Inherited inherit() {
  Inherited inherited = {};
  for (int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC); fd >= 0;
       fd = ::open("/dev/null", O_RDWR | O_CLOEXEC)) {
    if (fd <= 2) continue;
    ::close(fd);
    break;
  }
  inherited.descriptors = open_descriptors();
  ::pthread_sigmask(SIG_SETMASK, nullptr, &inherited.mask);
  ::sigaction(SIGCHLD, nullptr, &inherited.on_child);
  return inherited;
}

void block_signals(Inherited& inherited) {
  sigset_t all;
  ::sigfillset(&all);
  // A fault in our own code must end the process, not hang it.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
    ::sigdelset(&all, fault);
  ::pthread_sigmask(SIG_SETMASK, &all, &inherited.mask);
  // If the caller ignores SIGCHLD, we inherit that, and exit statuses would be lost.
  struct sigaction ordinary = {};
  ordinary.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &ordinary, &inherited.on_child);
}

void unblock_signals(const Inherited& inherited) {
  ::sigaction(SIGCHLD, &inherited.on_child, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &inherited.mask, nullptr);
}

int wait_unless_told_to_end(const Inherited& inherited, std::chrono::milliseconds duration) {
  using Clock = std::chrono::steady_clock;
  sigset_t ends;
  ::sigemptyset(&ends);
  sigset_t blocked = inherited.mask;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction action = {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;  // nohup
    ::sigaddset(&ends, signal);
    ::sigaddset(&blocked, signal);
  }
  ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  const auto until = Clock::now() + duration;
  for (;;) {
    const auto left =
        std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(until - Clock::now()));
    const timespec wait{static_cast<time_t>(left.count() / 1'000'000'000),
                        static_cast<long>(left.count() % 1'000'000'000)};
    const int signal = ::sigtimedwait(&ends, nullptr, &wait);
    if (signal > 0) return signal;
    if (errno != EINTR) return 0;
  }
}

std::uint64_t pending_signals() {
  sigset_t pending;
  ::sigpending(&pending);
  std::uint64_t bits = 0;
  for (int signal = 1; signal <= 64; ++signal)
    if (::sigismember(&pending, signal) == 1) bits |= std::uint64_t{1} << (signal - 1);
  return bits;
}

void close_ours_on_exec(const Inherited& inherited) {
  unsigned first = 3;
  for (const int fd : inherited.descriptors) {
    mark_range(first, static_cast<unsigned>(fd) - 1);
    first = static_cast<unsigned>(fd) + 1;
  }
  mark_range(first, UINT_MAX);
}

void close_inherited(const Inherited& inherited) {
  for (const int fd : inherited.descriptors) ::close(fd);
}

void close_all_but(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  kept.push_back(INT_MAX);
  int first = 3;
  for (const int fd : kept) {
    if (fd > first && ::close_range(static_cast<unsigned>(first), static_cast<unsigned>(fd) - 1,
                                    // close_range() needs Linux 5.9; on older kernels, close them
                                    // one by one
                                    0) != 0)
      for (const int one : open_descriptors())
        if (one >= first && one < fd) ::close(one);
    first = std::max(first, fd == INT_MAX ? fd : fd + 1);
  }
}

void redirect_standard_streams(int first, int last) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (int fd = first; fd <= last; ++fd) ::dup3(null, fd, 0);
  ::close(null);
}

}  // namespace berth::run
