// Runs a Python interpreter that parses an untrusted file. The interpreter is isolated (-I -S: no
// site, no user modules, no environment), has its own process group and limited memory, and is
// killed after a time limit.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "base/descriptor.hpp"
#include "doctor/source/readers.hpp"

namespace berth::doctor::source {
namespace {

using Clock = std::chrono::steady_clock;

constexpr rlim_t kMemory = rlim_t{1} << 30;
constexpr std::size_t kMostAnswer = 4 << 20;

[[noreturn]] void become_python(const std::string& python, const std::string& script, int input,
                                int output) {
  ::setpgid(0, 0);
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0 || ::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(nowhere, 2) < 0)
    ::_exit(127);
  ::syscall(SYS_close_range, 3U, ~0U, 0U);
  const rlimit memory{kMemory, kMemory};
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_AS, &memory);
  ::setrlimit(RLIMIT_CORE, &none);
  std::signal(SIGPIPE, SIG_DFL);
  ::execlp(python.c_str(), python.c_str(), "-I", "-S", "-c", script.c_str(), nullptr);
  ::_exit(127);
}

/// Sends as much as possible without blocking. Returns true if data remains to be sent, and the
/// other side is open.
bool feed(Descriptor& pipe, std::string_view& rest) {
  const ssize_t count = ::send(pipe.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  rest.remove_prefix(static_cast<std::size_t>(count));
  return !rest.empty();
}

/// Sends the input, and reads the output until the child closes it. Returns nullopt on an error, or
/// if the output is too large. After the time limit, returns nullopt and sets `late`.
std::optional<std::string> converse(Descriptor& to, const Descriptor& from, std::string_view rest,
                                    std::chrono::seconds most, bool& late) {
  std::string answer;
  std::array<char, 65536> buffer{};
  for (const auto end = Clock::now() + most; Clock::now() < end;) {
    std::array<pollfd, 2> fds{{{from.get(), POLLIN, 0}, {to ? to.get() : -1, POLLOUT, 0}}};
    if (::poll(fds.data(), fds.size(), 100) < 0 && errno != EINTR) return std::nullopt;
    if (to && fds[1].revents != 0 && !feed(to, rest)) to.reset();
    if (fds[0].revents == 0) continue;
    const ssize_t count = ::read(from.get(), buffer.data(), buffer.size());
    if (count == 0) return answer;
    if (count > 0) answer.append(buffer.data(), static_cast<std::size_t>(count));
    if ((count < 0 && errno != EINTR) || answer.size() > kMostAnswer) return std::nullopt;
  }
  late = true;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> ask_interpreter(const std::string& python, const std::string& script,
                                           std::string_view input, std::chrono::seconds most,
                                           bool& late) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  // Use a socket instead of a pipe, because send() to a socket can suppress SIGPIPE.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) != 0) return std::nullopt;
  Descriptor theirs(in[0]);
  Descriptor to(in[1]);
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return std::nullopt;
  const Descriptor from(out[0]);
  Descriptor writing(out[1]);
  const pid_t child = ::fork();
  if (child < 0) return std::nullopt;
  if (child == 0) become_python(python, script, theirs.get(), writing.get());
  ::setpgid(child, child);
  theirs.reset();
  writing.reset();
  auto answer = converse(to, from, input, most, late);
  // A child that has closed its output has finished its work, but may not exit. Wait up to a
  // second, then kill it.
  constexpr int kStep = 5, kLongest = 1000;  // milliseconds
  int status = 0;
  pid_t ended = 0;
  for (int waited = 0; answer && waited < kLongest; waited += kStep) {
    ended = ::waitpid(child, &status, WNOHANG);
    if (ended != 0) break;
    ::poll(nullptr, 0, kStep);
  }
  if (ended == 0) {
    ::kill(-child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return answer;
}

}  // namespace berth::doctor::source
