#include "run/warning.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/file.hpp"
#include "run/descendants.hpp"

namespace berth::run {
namespace {

std::uint64_t mask_in(std::string_view status, std::string_view name) {
  for (const std::string_view line : split(status, '\n')) {
    if (!line.starts_with(name)) continue;
    const std::string_view word = trim(line.substr(name.size()));
    std::uint64_t mask = 0;
    std::from_chars(word.data(), word.data() + word.size(), mask, 16);
    return mask;
  }
  return 0;
}

/// Whether the process handles the signal: with a handler, or with sigwait(3) or signalfd(2), for
/// which the signal is blocked.
bool handles(pid_t pid, int signal) {
  const std::string status = slurp("/proc/" + std::to_string(pid) + "/status").value_or("");
  return ((mask_in(status, "SigCgt:") | mask_in(status, "SigBlk:")) >> (signal - 1) & 1) != 0;
}

}  // namespace

void add_keeper_signals(sigset_t& set) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    ::sigaddset(&set, number);
}

bool is_to_be_passed_on(const signalfd_siginfo& info) {
  return info.ssi_code == SI_QUEUE && info.ssi_int == kPassOn;
}

int warn_descendants(int signal, pid_t spared) {
  std::unordered_set<pid_t> covered;
  std::vector<Relative> told;
  // Parents come before their children.
  for (const Relative& one : descendants(::getpid())) {
    const bool is_below = covered.contains(one.stat.parent);
    if (one.pid == spared) continue;
    if (!is_below && handles(one.pid, signal))
      told.push_back(one);
    else if (!is_below)
      continue;
    covered.insert(one.pid);
  }
  signal_all(told, signal, kPassOn);
  return static_cast<int>(told.size());
}

std::chrono::milliseconds Checkpoint::send() {
  using std::chrono::milliseconds;
  if (!is_wanted()) return milliseconds(0);
  if (result_.signal == 0) {
    result_.signal = wish_.signal;
    sent_ = std::chrono::steady_clock::now();
    result_.was_handled = warn_descendants(wish_.signal) > 0;
  }
  if (!result_.was_handled) return milliseconds(0);
  const auto left =
      std::chrono::ceil<milliseconds>(sent_ + wish_.before - std::chrono::steady_clock::now());
  return std::max(left, milliseconds(0));
}

void Checkpoint::finish(bool by_itself) {
  if (result_.signal == 0 || std::exchange(is_finished_, true)) return;
  result_.ended_by_itself = by_itself;
  result_.waited = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - sent_);
}

}  // namespace berth::run
