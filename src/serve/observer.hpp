// Observer: takes snapshots of the machine in its own thread, so that a hanging driver delays no
// answer. It takes one snapshot at a time. Requests that arrive in the meantime get the next
// snapshot.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "inventory/observe.hpp"
#include "model/job.hpp"
#include "model/ledger.hpp"
#include "model/mig.hpp"
#include "model/snapshot.hpp"

namespace berth::serve {

/// A process whose descendants belong to a job.
struct JobRoot {
  model::JobId job = 0;
  std::int64_t pid = 0;
};

struct Look {
  model::Snapshot snapshot;
  std::vector<model::JobProcess> processes;  // the snapshot's processes that belong to a job
  std::optional<Result<std::vector<model::MigCard>>> mig;  // nullopt: MIG was not read
};

class Observer {
 public:
  using Done = std::function<void(Look)>;  // called in the observer's thread

  /// `mig`: also ask which MIG partitions can be made.
  Observer(inventory::Sources sources, bool mig, Done done);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  void ask(std::vector<JobRoot> roots);

 private:
  void work();

  inventory::Sources sources_;
  bool mig_;
  Done done_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool asked_ = false, over_ = false;
  std::vector<JobRoot> roots_;
  std::thread thread_;
};

/// Finds the processes of the snapshot that descend from a root. Subreapers keep even double-forked
/// descendants below the root.
[[nodiscard]] std::vector<model::JobProcess> processes_of(const model::Snapshot& snapshot,
                                                          const std::vector<JobRoot>& roots,
                                                          const std::string& proc);

}  // namespace berth::serve
