#include "cli/host_streams.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/error_words.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "system/spawn.hpp"

namespace berth::cli {
namespace {

constexpr int kMostParts = 64;  // after this many reads from one machine, read from the next

std::string last_line(std::string_view errors) {
  errors = trim(errors);
  const auto end = errors.rfind('\n');
  return printable(trim(errors.substr(end == std::string_view::npos ? 0 : end + 1)).substr(0, 300));
}

void watch_for_input(int epoll, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

}  // namespace

std::vector<std::string> ssh_words(const std::string& host, const std::string& command) {
  return {"ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "--", host, command};
}

std::string why_no_answer(int status, std::string_view errors) {
  constexpr int kNotFound = 127;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotFound)
    return text("berth is not installed there");
  const std::string last = last_line(errors);
  return last.empty() ? text("no answer") : last;
}

struct HostStreams::Stream {
  std::string host;
  pid_t pid = -1;
  Descriptor out, err;
  std::string line, errors;
  Clock::time_point heard, asked;

  /// Reads what has arrived on stderr, and keeps the end of it. Returns true if stderr was closed.
  bool read_errors() {
    constexpr std::size_t kMostErrors = 4096;
    std::array<char, 4096> part{};
    for (int i = 0; i < kMostParts; ++i) {
      const ssize_t count = ::read(err.get(), part.data(), part.size());
      if (count <= 0) return count == 0;
      errors.append(part.data(), static_cast<std::size_t>(count));
      if (errors.size() > kMostErrors) errors.erase(0, errors.size() - kMostErrors);
    }
    return false;
  }
  void end() {
    out.reset();
    err.reset();
    if (pid <= 0) return;
    ::kill(-std::exchange(pid, -1), SIGKILL);
  }
};

HostStreams::HostStreams(const std::vector<std::string>& hosts, std::string command,
                         Options options, Events events)
    : command_(std::move(command)),
      options_(options),
      events_(std::move(events)),
      events_descriptor_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  const itimerspec each{{1, 0}, {1, 0}};
  ::timerfd_settime(timer_.get(), 0, &each, nullptr);
  watch_for_input(events_descriptor_.get(), timer_.get());
  for (const std::string& host : hosts) {
    streams_.push_back(std::make_unique<Stream>());
    streams_.back()->host = host;
    start(*streams_.back());
  }
}

HostStreams::~HostStreams() {
  for (const auto& stream : streams_) {
    const pid_t pid = stream->pid;
    stream->end();
    if (pid > 0) ::waitpid(pid, nullptr, 0);
  }
}

void HostStreams::start(Stream& stream) {
  stream.asked = stream.heard = Clock::now();
  stream.line.clear();
  stream.errors.clear();
  std::array<int, 2> out{-1, -1}, err{-1, -1};
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return;
  stream.out.reset(out[0]);
  const Descriptor out_end(out[1]);
  if (::pipe2(err.data(), O_CLOEXEC) != 0) return stream.end();
  stream.err.reset(err[0]);
  const Descriptor err_end(err[1]);
  const auto child = system::spawn({.program = "ssh",
                                    .words = ssh_words(stream.host, command_),
                                    .out = out_end.get(),
                                    .err = err_end.get(),
                                    .is_daemon = true});
  if (child.problem != 0) {
    stream.errors = "ssh: " + error_words(child.problem);
    return stream.end();
  }
  stream.pid = child.pid;
  for (const int one : {stream.out.get(), stream.err.get()}) {
    ::fcntl(one, F_SETFL, O_NONBLOCK);
    watch_for_input(events_descriptor_.get(), one);
  }
}

void HostStreams::fail(Stream& stream, std::size_t position, const std::string& why) {
  const pid_t pid = stream.pid;
  stream.end();
  if (pid > 0) ::waitpid(pid, nullptr, 0);
  stream.asked = Clock::now();
  events_.on_failure(position, why);
}

void HostStreams::read(Stream& stream, std::size_t position) {
  std::array<char, 16 << 10> part{};
  ssize_t count = 0;
  // Remove a closed stderr from epoll, which would report it forever. Only a closed stdout means
  // that the program has ended.
  if (stream.read_errors())
    ::epoll_ctl(events_descriptor_.get(), EPOLL_CTL_DEL, stream.err.get(), nullptr);
  for (int i = 0; i < kMostParts; ++i) {
    count = ::read(stream.out.get(), part.data(), part.size());
    if (count <= 0) break;
    std::string_view left(part.data(), static_cast<std::size_t>(count));
    for (auto end = left.find('\n'); end != std::string_view::npos; end = left.find('\n')) {
      stream.line += left.substr(0, end);
      left.remove_prefix(end + 1);
      stream.heard = Clock::now();
      events_.on_line(position, stream.line);
      stream.line.clear();
    }
    stream.line += left;
    if (stream.line.size() > options_.most_line)
      return fail(stream, position, text("a line is too long"));
  }
  if (count != 0) return;
  int status = 0;
  const pid_t pid = std::exchange(stream.pid, -1);
  ::kill(-pid, SIGKILL);  // ssh has closed its output, so nothing else will come from it
  ::waitpid(pid, &status, 0);
  stream.read_errors();
  const std::string why = why_no_answer(status, stream.errors);
  fail(stream, position, why);
}

void HostStreams::update() {
  std::uint64_t times = 0;
  static_cast<void>(!::read(timer_.get(), &times, sizeof times));
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = *streams_[i];
    const Clock::time_point now = Clock::now();
    if (stream.pid <= 0) {
      if (!stream.errors.empty()) {  // why ssh could not be started
        events_.on_failure(i, std::exchange(stream.errors, {}));
      } else if (now - stream.asked >= options_.retry) {
        start(stream);
      }
      continue;
    }
    read(stream, i);
    if (stream.pid > 0 && now - stream.heard >= options_.silence)
      fail(stream, i,
           text("no answer within {} seconds",
                std::chrono::duration_cast<std::chrono::seconds>(options_.silence).count()));
  }
}

}  // namespace berth::cli
