// Watches: the processes that jobs live by, held by pidfd, so that a number which the kernel gives
// away again is never mistaken for the one that had it. One for each process, however many jobs it
// has: files that may be open are few. Where there is none left, look_again() does without.
#pragma once

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

/// When a process began, in the kernel's ticks; nullopt: it is not there.
[[nodiscard]] std::optional<std::uint64_t> start_ticks_of(std::int64_t pid);
/// Whose it is.
[[nodiscard]] std::optional<std::uint32_t> uid_of(std::int64_t pid);

class Watches {
 public:
  /// `all_gone`: called from the loop when the last of a job's processes has gone.
  Watches(boost::asio::io_context& loop, std::function<void(model::JobId)> all_gone);
  ~Watches();
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;

  /// In place of those of before.
  void watch(model::JobId job, const std::vector<model::ProcessId>& processes);
  void forget(model::JobId job);
  /// To the first of its processes that is there; false where none is.
  bool signal(model::JobId job, int number);
  /// To all of them but the first.
  void signal_others(model::JobId job, int number);
  [[nodiscard]] std::vector<JobRoot> roots() const;
  /// For processes that nothing tells of: now and then.
  void look_again();

 private:
  struct Watch;
  [[nodiscard]] Watch* watch_of(const model::ProcessId& process);
  void wait_for_the_end(const model::ProcessId& process);
  void look_at(model::ProcessId process);
  void leave(const model::ProcessId& process, model::JobId job);
  void forget_idle(model::ProcessId process);
  void gone(model::ProcessId process);

  boost::asio::io_context& loop_;
  std::function<void(model::JobId)> all_gone_;
  std::map<model::ProcessId, Watch> watches_;
  std::set<model::ProcessId> idle_;  // of no job
  std::map<model::JobId, std::vector<model::ProcessId>> watched_;
};

}  // namespace berth::serve
