// Running jobs that were told to end and have not ended yet.
#pragma once

#include <map>

#include "broker/broker.hpp"
#include "model/job.hpp"
#include "serve/watches.hpp"

namespace berth::serve {

class StoppedJobs {
 public:
  [[nodiscard]] bool contains(model::JobId id) const { return jobs_.contains(id); }
  void add(model::JobId id, policy::Instant now) { jobs_.emplace(id, Stopped{now}); }
  void remove(model::JobId id) { jobs_.erase(id); }
  void clear() { jobs_.clear(); }
  /// Sends stronger signals to jobs that did not end; call it periodically. A keeper gives its job
  /// a grace period and then kills it. The broker kills a lease without a keeper. If a keeper is
  /// stuck, the front (the user's `berth run`) gets SIGTERM and passes it on. After that, front and
  /// keeper are killed one at a time, so that the remaining one cleans up.
  void press(policy::Instant now, const broker::Broker& broker, Watches& watches);

 private:
  struct Stopped {
    policy::Instant since{0};
    int pressed = 0;  // how many stronger signals the job was sent
  };
  std::map<model::JobId, Stopped> jobs_;
};

}  // namespace berth::serve
