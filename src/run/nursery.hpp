// Nursery: a small process, forked while ours has one thread, that forks keepers of queued jobs for
// us. A fork of a program with threads may hold a lock for ever, and an exec for each job costs
// more than the job may; who forks the next one where somebody killed it is a Spare. It stays until
// its last keeper has ended, and ends what loses its keeper.
#pragma once

#include <sys/resource.h>

#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "model/job.hpp"
#include "run/launch.hpp"
#include "run/spare.hpp"

namespace berth::run {

class Nursery {
 public:
  /// To be called before there are threads. Fails with kUnavailable (E0512).
  [[nodiscard]] static Result<Nursery> start();
  Nursery(Nursery&&) = default;
  Nursery& operator=(Nursery&&) = default;

  /// A keeper for this job (queued.hpp). Fails with kUnavailable (E0512).
  [[nodiscard]] Result<model::ProcessId> keep(const Launch& launch);

 private:
  Nursery(Spare spare, Descriptor channel, const rlimit& files)
      : spare_(std::move(spare)), channel_(std::move(channel)), files_(files) {}
  [[nodiscard]] Result<Descriptor> another_nurse();
  Spare spare_;
  Descriptor channel_;
  rlimit files_;  // what jobs may open, whatever we may by then
};

}  // namespace berth::run
