// Observer: looks at the machine in a thread of its own, so that a driver that hangs keeps nobody
// from an answer. One look at a time; who asks meanwhile gets the next one.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "inventory/observe.hpp"
#include "model/job.hpp"
#include "model/ledger.hpp"
#include "model/snapshot.hpp"

namespace berth::serve {

/// Processes whose descendants are a job's.
struct JobRoot {
  model::JobId job = 0;
  std::int64_t pid = 0;
};

struct Look {
  model::Snapshot snapshot;
  std::vector<model::JobProcess> processes;  // of the snapshot's, those that belong to a job
};

class Observer {
 public:
  using Done = std::function<void(Look)>;  // called in the observer's thread

  Observer(inventory::Sources sources, Done done);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  void ask(std::vector<JobRoot> roots);

 private:
  void work();

  inventory::Sources sources_;
  Done done_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool asked_ = false, over_ = false;
  std::vector<JobRoot> roots_;
  std::thread thread_;
};

/// Which of the snapshot's processes descend from a root (subreapers keep even those that fork
/// twice below them).
[[nodiscard]] std::vector<model::JobProcess> processes_of(const model::Snapshot& snapshot,
                                                          const std::vector<JobRoot>& roots,
                                                          const std::string& proc);

}  // namespace berth::serve
