#include "vendor/opencl/patience.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <string>

#include "base/file.hpp"

namespace berth::opencl {
namespace {

using namespace std::chrono_literals;

constexpr auto kWindow = 250ms;
constexpr int kMostDeadlines = 10;

}  // namespace

Patience::Patience(pid_t parent, std::chrono::steady_clock::time_point start,
                   std::chrono::milliseconds deadline)
    : parent_(parent),
      start_(start),
      until_(start + std::max(deadline - kWindow, 0ms)),
      deadline_(deadline) {}

/// Reads the state of the scanning child. If it has not been started yet, reads the state of its
/// parent.
Patience::Seen Patience::look() const {
  Seen seen;
  const auto children = slurp(fmt::format("/proc/{0}/task/{0}/children", parent_));
  auto pid = static_cast<pid_t>(std::strtol(children.value_or("").c_str(), nullptr, 10));
  if (pid <= 0) pid = parent_;
  clockid_t clock = 0;
  timespec cpu{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &cpu) != 0) return seen;
  seen.cpu = std::chrono::seconds(cpu.tv_sec) + std::chrono::nanoseconds(cpu.tv_nsec);
  const std::string stat = slurp(fmt::format("/proc/{}/stat", pid)).value_or("");
  // The process name in parentheses may contain any character, so search for the last ')'.
  const auto end = stat.rfind(')');
  if (end == std::string::npos) return seen;
  std::istringstream fields(stat.substr(end + 1));
  std::string state, skipped;
  fields >> state;
  for (int field = 4; field < 12; ++field) fields >> skipped;
  fields >> seen.major_faults;
  seen.runs = state == "R";
  return seen;
}

bool Patience::renew(std::chrono::steady_clock::time_point now) {
  const Seen seen = look();
  const bool moves = seen.runs || seen.cpu > last_.cpu || seen.major_faults > last_.major_faults;
  last_ = seen;
  if (now < start_ + deadline_) {
    until_ = start_ + deadline_;
    return true;
  }
  until_ = now + kWindow;
  return moves && seen.cpu < deadline_ && now < start_ + kMostDeadlines * deadline_;
}

}  // namespace berth::opencl
