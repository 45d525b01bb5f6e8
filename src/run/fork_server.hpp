// ForkServer: a small process that forks the keepers of queued jobs. It is forked while the broker
// has one thread, because a fork of a multi-threaded program may inherit a locked lock. An exec
// per job would cost too much. If it is killed, a Standby forks the next one. It lives until its
// last keeper has ended, and ends jobs whose keeper was killed.
#pragma once

#include <sys/resource.h>

#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "model/job.hpp"
#include "run/launch.hpp"
#include "run/queued_watch.hpp"
#include "run/standby.hpp"

namespace berth::run {

class ForkServer {
 public:
  /// Call it before the first thread starts. Fails with kUnavailable (E0512). `write`: makes the
  /// reports of the jobs; if it is empty, the jobs get no reports.
  [[nodiscard]] static Result<ForkServer> start(WriteReport write);
  ForkServer(ForkServer&&) = default;
  ForkServer& operator=(ForkServer&&) = default;

  /// Forks a keeper for this job (queued.hpp). Fails with kUnavailable (E0512).
  [[nodiscard]] Result<model::ProcessId> keep(const Launch& launch);

 private:
  ForkServer(Standby standby, Descriptor channel, const rlimit& files, WriteReport write)
      : standby_(std::move(standby)),
        channel_(std::move(channel)),
        files_(files),
        write_(std::move(write)) {}
  [[nodiscard]] Result<Descriptor> restart();
  Standby standby_;
  Descriptor channel_;
  rlimit files_;  // limit of open files for the jobs; this process may have raised its own limit
  WriteReport write_;
};

}  // namespace berth::run
