#include "run/warning.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
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

bool is_berth(pid_t pid) {
  struct stat own = {}, other = {};
  return ::stat("/proc/self/exe", &own) == 0 &&
         ::stat(("/proc/" + std::to_string(pid) + "/exe").c_str(), &other) == 0 &&
         own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

Warned warn_descendants(int signal, pid_t spared) {
  std::unordered_set<pid_t> told;      // processes that handle the signal, and their descendants
  std::unordered_set<pid_t> handlers;  // of these, programs other than Berth, and their descendants
  std::vector<Relative> to_signal;
  Warned warned;
  // Parents come before their children.
  for (const Relative& one : descendants(::getpid())) {
    const bool is_told = told.contains(one.stat.parent);
    const bool is_counted = handlers.contains(one.stat.parent);
    if (one.pid == spared) continue;
    const bool is_handler = !is_counted && handles(one.pid, signal);
    if (!is_told && is_handler) to_signal.push_back(one);
    if (is_told || is_handler) told.insert(one.pid);
    const bool counts = is_handler && !is_berth(one.pid);
    if (counts) ++warned.handlers;
    if (is_counted || counts) handlers.insert(one.pid);
  }
  signal_all(to_signal, signal, kPassOn);
  warned.signalled = static_cast<int>(to_signal.size());
  return warned;
}

std::string not_sent_sentence(int signal) {
  return text("SIG{} was not sent, because no process of the job handles it",
              ::sigabbrev_np(signal));
}

void wait_for_the_start(const Descriptor& trouble, const std::function<void()>& hear) {
  constexpr int kMost = 1000;
  pollfd start{trouble.get(), POLLIN, 0};
  while (trouble && ::poll(&start, 1, kMost) > 0) hear();
}

std::chrono::milliseconds Checkpoint::send() {
  using std::chrono::milliseconds;
  if (!is_wanted()) return milliseconds(0);
  if (result_.signal == 0) {
    result_.signal = wish_.signal;
    sent_ = std::chrono::steady_clock::now();
    result_.was_handled = warn_descendants(wish_.signal).handlers > 0;
  }
  if (!result_.was_handled) return milliseconds(0);
  const auto left =
      std::chrono::ceil<milliseconds>(sent_ + wish_.before - std::chrono::steady_clock::now());
  return std::max(left, milliseconds(0));
}

EndingPlan Checkpoint::plan_of_end(std::chrono::milliseconds grace, const bool& has_ended) {
  EndingPlan plan;
  plan.grace = grace;
  plan.head_start = send();
  if (plan.head_start.count() > 0) signal_all(descendants(::getpid()), SIGCONT);
  plan.ends_head_start = [&has_ended] { return has_ended; };
  plan.on_left_behind = [this](const std::vector<Relative>&) { finish(false); };
  return plan;
}

void Checkpoint::finish(bool by_itself) {
  if (result_.signal == 0 || std::exchange(is_finished_, true)) return;
  result_.ended_by_itself = by_itself;
  result_.waited = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - sent_);
}

}  // namespace berth::run
