// ForkServer: a small process that forks the keepers of queued jobs. It is forked while the broker
// has one thread: a fork of a program with threads may inherit a lock that nobody releases, and an
// exec for each job costs too much. If it is killed, a Standby forks the next one. It stays until
// its last keeper has ended, and ends jobs that lose their keeper.
#pragma once

#include <sys/resource.h>

#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "model/job.hpp"
#include "run/launch.hpp"
#include "run/standby.hpp"

namespace berth::run {

class ForkServer {
 public:
  /// To be called before there are threads. Fails with kUnavailable (E0512).
  [[nodiscard]] static Result<ForkServer> start();
  ForkServer(ForkServer&&) = default;
  ForkServer& operator=(ForkServer&&) = default;

  /// A keeper for this job (queued.hpp). Fails with kUnavailable (E0512).
  [[nodiscard]] Result<model::ProcessId> keep(const Launch& launch);

 private:
  ForkServer(Standby standby, Descriptor channel, const rlimit& files)
      : standby_(std::move(standby)), channel_(std::move(channel)), files_(files) {}
  [[nodiscard]] Result<Descriptor> restart();
  Standby standby_;
  Descriptor channel_;
  rlimit files_;  // what jobs may open, whatever we may by then
};

}  // namespace berth::run
