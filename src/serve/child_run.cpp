#include "serve/child_run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "base/descriptor.hpp"
#include "system/spawn.hpp"

namespace berth::serve {
namespace {

using Clock = std::chrono::steady_clock;

/// A file in memory with this text, at its begin. A pipe would block if the text is long.
Descriptor file_with(const std::string& text) {
  Descriptor file(::memfd_create("berth-input", MFD_CLOEXEC));
  if (!file) return file;
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()) || ::lseek(file.get(), 0, SEEK_SET) != 0)
    file.reset();
  return file;
}

/// Reads what is there now; false at the end of the output.
bool read_part(int from, int wait_milliseconds, std::size_t most, std::string& into) {
  pollfd wait{from, POLLIN, 0};
  if (::poll(&wait, 1, wait_milliseconds) <= 0) return true;
  std::array<char, 16 << 10> part{};
  const ssize_t count = ::read(from, part.data(), part.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  into.append(part.data(), std::min(static_cast<std::size_t>(count), most - into.size()));
  return count > 0;
}

}  // namespace

ChildResult run_child(const ChildRun& run, const std::atomic<bool>& is_stopped) {
  constexpr int kTurn = 50;  // milliseconds
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {.problem = errno};
  const Descriptor ours(ends[0]);
  Descriptor theirs(ends[1]);
  const Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const Descriptor input = file_with(run.input);
  if (!input || !nowhere) return {.problem = errno};
  const auto child = system::spawn({.program = run.program,
                                    .words = run.words,
                                    .out = theirs.get(),
                                    .err = run.keeps_errors ? theirs.get() : nowhere.get(),
                                    .in = input.get(),
                                    .is_daemon = true});
  theirs.reset();
  if (child.problem != 0) return {.problem = child.problem};
  ChildResult result;
  const auto until = Clock::now() + run.longest;
  bool may_say_more = true;
  // A process that the program left behind may keep the output open, so its end is no reason to
  // wait.
  while (::waitpid(child.pid, &result.status, WNOHANG) == 0) {
    if (is_stopped || Clock::now() >= until) {
      result.is_over = false;
      ::kill(-child.pid, SIGKILL);
      ::waitpid(child.pid, &result.status, 0);
      break;
    }
    if (may_say_more)
      may_say_more = read_part(ours.get(), kTurn, run.most_bytes, result.output);
    else
      ::poll(nullptr, 0, kTurn / 10);
  }
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  for (std::size_t before = SIZE_MAX; may_say_more && before != result.output.size();) {
    before = result.output.size();
    may_say_more = read_part(ours.get(), 0, run.most_bytes, result.output);
  }
  return result;
}

}  // namespace berth::serve
