#include "cli/slurm_hang.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptor.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "run/hang.hpp"
#include "run/native_stack.hpp"
#include "run/stacks.hpp"
#include "run/tries_record.hpp"

namespace berth::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr milliseconds kLook(1'000), kNativePatience(2'000);

model::HangSeen look_at(const HangWatchOfTask& watch) {
  run::RankState state;
  state.rank = watch.rank;
  state.stack = run::ask_for_stacks(watch.stack_folder, {watch.task})[watch.task];
  if (const auto threads = run::threads_of(watch.task); !threads.empty())
    state.waits_in = threads.front().waits_in;
  state.native =
      run::native_lines(run::native_stacks({{watch.task, watch.task}}, kNativePatience).front());
  return run::describe({state});
}

std::string sentence_of(const model::HangSeen& seen) {
  const model::HangSeen::Rank& rank = seen.ranks.front();
  const std::string silent = show_duration(seen.silent);
  if (!rank.where.empty())
    return text("task {} has made no progress for {}: it is at {}", rank.rank, silent,
                printable(rank.where));
  if (!rank.waits_in.empty())
    return text("task {} has made no progress for {}: it waits in {}", rank.rank, silent,
                printable(rank.waits_in));
  return text("task {} has made no progress for {}", rank.rank, silent);
}

/// Runs until the task has ended. Reports each hang once, with the position in the task's code.
void watch_until_end(const HangWatchOfTask& watch, int pidfd) {
  const Descriptor record(
      ::open(watch.record.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  model::Tries seen;
  const auto begun = Clock::now();
  auto looked = begun, moved = begun;
  run::Movement before = run::movement_of(watch.task);
  bool is_told = false;
  for (;;) {
    pollfd end{pidfd, POLLIN, 0};
    if (::poll(&end, 1, static_cast<int>(kLook.count())) > 0) return;
    const auto now = Clock::now();
    const run::Movement movement = now - moved >= run::kAskForNetwork
                                       ? run::movement_with_network(watch.task, {})
                                       : run::movement_of(watch.task);
    if (run::has_moved(before, movement, std::chrono::duration<double>(now - looked).count())) {
      moved = now;
      is_told = false;
    }
    before = movement;
    looked = now;
    if (is_told || now - moved < watch.timeout) continue;
    is_told = true;
    model::HangSeen hang = look_at(watch);
    hang.after = duration_cast<milliseconds>(now - begun);
    hang.silent = duration_cast<milliseconds>(now - moved);
    const std::string line = text("note: {}", sentence_of(hang)) + "\n";
    if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
    if (seen.all.empty()) seen.all.emplace_back();
    seen.all.back().hangs.push_back(std::move(hang));
    run::write_record(record, seen);
  }
}

}  // namespace

bool watch_task(const HangWatchOfTask& watch) {
  const Descriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, watch.task, 0)));
  if (!pidfd) return false;
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child > 0) {
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  // Fork twice, so that the watcher is not a child of the task. The task might wait for all its
  // children.
  const pid_t watcher = ::fork();
  if (watcher != 0) ::_exit(watcher > 0 ? 0 : 1);
  // The plugin reads this process's output until its end, so close it.
  const Descriptor nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nowhere || ::dup2(nowhere.get(), STDIN_FILENO) < 0 ||
      ::dup2(nowhere.get(), STDOUT_FILENO) < 0)
    ::_exit(1);
  watch_until_end(watch, pidfd.get());
  ::_exit(0);
}

model::Tries hangs_of_task(const std::string& record) {
  const Descriptor file(::open(record.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return file ? run::read_record(file) : model::Tries{};
}

}  // namespace berth::cli
