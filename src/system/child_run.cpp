#include "system/child_run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/descriptor.hpp"
#include "system/spawn.hpp"

namespace berth::system {
namespace {

using Clock = std::chrono::steady_clock;

/// A file in memory that contains this text, at offset 0. A pipe would block if the text is long.
Descriptor file_with(const std::string& text) {
  Descriptor file(::memfd_create("berth-input", MFD_CLOEXEC));
  if (!file) return file;
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()) || ::lseek(file.get(), 0, SEEK_SET) != 0)
    file.reset();
  return file;
}

/// One of the program's streams.
struct Stream {
  Descriptor ours, theirs;
  bool is_open = false;
  std::string text = {};

  bool open() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    ours.reset(ends[0]);
    theirs.reset(ends[1]);
    ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
    return is_open = true;
  }
  /// Reads the data that is available now, and keeps the first `most` bytes. Returns false if no
  /// data was available.
  bool read_part(std::size_t most) {
    if (!is_open) return false;
    std::array<char, 16 << 10> part{};
    const ssize_t count = ::read(ours.get(), part.data(), part.size());
    is_open = count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
    if (count <= 0) return false;
    text.append(part.data(), std::min(static_cast<std::size_t>(count), most - text.size()));
    return true;
  }
};

void wait_for(const Stream& out, const Stream& err, int milliseconds) {
  std::array<pollfd, 2> waits{{{out.is_open ? out.ours.get() : -1, POLLIN, 0},
                               {err.is_open ? err.ours.get() : -1, POLLIN, 0}}};
  ::poll(waits.data(), waits.size(), milliseconds);
}

}  // namespace

ChildResult run_child(const ChildRun& run, const std::atomic<bool>& is_stopped) {
  constexpr int kTurn = 20;  // longest time to wait for output, in milliseconds
  // After the program's end, read at most this often. A process that the program started may still
  // write.
  constexpr int kMostParts = 100;
  Stream out, err;
  const Descriptor input = file_with(run.input);
  const Descriptor file = run.file.empty() ? Descriptor() : file_with(run.file);
  if (!out.open() || !err.open() || !input || (!run.file.empty() && !file))
    return {.problem = errno};
  const auto child = spawn({.program = run.program,
                            .words = run.words,
                            .variables = run.variables,
                            .out = out.theirs.get(),
                            .err = err.theirs.get(),
                            .in = input.get(),
                            .more = file.get(),
                            .is_daemon = true});
  out.theirs.reset();
  err.theirs.reset();
  if (child.problem != 0) return {.problem = child.problem};
  ChildResult result;
  const auto until = Clock::now() + run.longest;
  // A process that the program left behind may keep the streams open, so do not wait for their end.
  while (::waitpid(child.pid, &result.status, WNOHANG) == 0) {
    if (is_stopped || Clock::now() >= until) {
      result.is_over = false;
      ::kill(-child.pid, SIGKILL);
      ::waitpid(child.pid, &result.status, 0);
      break;
    }
    const bool has_read = out.read_part(run.most_bytes);
    if (!err.read_part(run.most_bytes) && !has_read) wait_for(out, err, kTurn);
  }
  for (int parts = 0; parts < kMostParts && out.read_part(run.most_bytes);) ++parts;
  for (int parts = 0; parts < kMostParts && err.read_part(run.most_bytes);) ++parts;
  result.output = std::move(out.text);
  result.errors = std::move(err.text);
  return result;
}

}  // namespace berth::system
