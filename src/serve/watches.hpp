// Watches: the processes that jobs live by, held by pidfd, so that a number which the kernel gives
// away again is never mistaken for the one that had it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
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

 private:
  struct Watch;
  void gone(model::JobId job, const model::ProcessId& process);

  boost::asio::io_context& loop_;
  std::function<void(model::JobId)> all_gone_;
  std::map<model::JobId, std::vector<Watch>> watched_;
};

}  // namespace berth::serve
