// Watches: keeps a pidfd for each process that a lease depends on, so that a reused pid is never
// mistaken for the original process. One handle per process, for all its jobs, because open files
// are limited. Processes without a handle are checked by look_again().
#pragma once

#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "model/job.hpp"
#include "serve/observer.hpp"

namespace boost::asio {
class io_context;
}

namespace berth::serve {

/// The start time of a process in kernel ticks; nullopt: no such process.
[[nodiscard]] std::optional<std::uint64_t> start_ticks_of(std::int64_t pid);
/// The user of a process.
[[nodiscard]] std::optional<std::uint32_t> uid_of(std::int64_t pid);

class Watches {
 public:
  /// `all_gone`: called from the loop when the last process of a job has ended.
  Watches(boost::asio::io_context& loop, std::function<void(model::JobId)> all_gone);
  ~Watches();
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;

  /// Replaces the processes watched for this job.
  void watch(model::JobId job, const std::vector<model::ProcessId>& processes);
  void forget(model::JobId job);
  /// Signals the first living process of the job; false if there is none.
  bool signal(model::JobId job, int number);
  /// Signals all processes of the job except the first. In a terminal job, the first is the front
  /// (the user's `berth run`), and the second is its keeper. Signals the first if it is the only
  /// one. False if none is left.
  bool signal_keeper(model::JobId job, int number);
  /// Does the same as signal_keeper(), and also sends a value, as sigqueue(3) does.
  bool queue_to_keeper(model::JobId job, int number, int value);
  [[nodiscard]] std::size_t count(model::JobId job) const;
  [[nodiscard]] std::vector<JobRoot> roots() const;
  /// Checks processes without a handle; call it periodically.
  void look_again();

 private:
  struct Watch;
  bool tell_keeper(model::JobId job, int number, siginfo_t* info);
  [[nodiscard]] Watch* watch_of(const model::ProcessId& process);
  void wait_for_the_end(const model::ProcessId& process);
  void look_at(model::ProcessId process);
  void leave(const model::ProcessId& process, model::JobId job);
  void forget_idle(model::ProcessId process);
  void gone(model::ProcessId process);

  boost::asio::io_context& loop_;
  std::function<void(model::JobId)> all_gone_;
  std::map<model::ProcessId, Watch> watches_;
  std::set<model::ProcessId> idle_;  // no job needs them any more
  std::map<model::JobId, std::vector<model::ProcessId>> watched_;
};

}  // namespace berth::serve
