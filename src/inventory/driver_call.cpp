#include "inventory/driver_call.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/descriptor.hpp"

namespace berth::inventory {
namespace {

using std::chrono::milliseconds;

/// The descriptor of the pipe in the child. The child closes all higher descriptors.
constexpr int kPipe = 3;
void close_others(int pipe) {
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, stream);
  if (pipe != kPipe && ::dup2(pipe, kPipe) < 0) ::_exit(1);
  ::syscall(SYS_close_range, kPipe + 1, ~0U, 0);
}

[[noreturn]] void answer(const std::function<std::string()>& work) {
  const std::string bytes = work();
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t written = ::write(kPipe, bytes.data() + at, bytes.size() - at);
    if (written <= 0 && errno != EINTR) ::_exit(1);
    at += static_cast<std::size_t>(std::max<ssize_t>(0, written));
  }
  ::_exit(0);
}

/// Reads until the child closes the pipe. Returns false if the child did not close the pipe in
/// time.
bool read_all(int pipe, milliseconds at_most, std::string& bytes) {
  const auto until = std::chrono::steady_clock::now() + at_most;
  std::array<char, 4096> part{};
  for (;;) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(until - std::chrono::steady_clock::now());
    pollfd ready{pipe, POLLIN, 0};
    const int polled = ::poll(&ready, 1, std::max(0, static_cast<int>(left.count())));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) return false;
    const ssize_t got = ::read(pipe, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    bytes.append(part.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

std::optional<std::string> call_in_child(milliseconds at_most,
                                         const std::function<std::string()>& work) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    close_others(writing.get());
    answer(work);
  }
  writing.reset();
  std::string bytes;
  const bool is_answered = read_all(reading.get(), at_most, bytes);
  // A child that is blocked in the driver does not end on SIGKILL. Stop waiting for it after a
  // short time.
  ::kill(child, SIGKILL);
  for (int tries = 0; tries < 20 && ::waitpid(child, nullptr, WNOHANG) == 0; ++tries)
    ::poll(nullptr, 0, 5);
  return is_answered && !bytes.empty() ? std::optional(std::move(bytes)) : std::nullopt;
}

}  // namespace berth::inventory
