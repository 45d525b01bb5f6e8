// Nursery: a small process, forked while ours has one thread, that forks keepers of queued jobs for
// us. A fork of a program with threads may hold a lock for ever, and an exec for each job costs
// more than the job may.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "model/job.hpp"

namespace berth::run {

class Nursery {
 public:
  /// To be called before there are threads. Fails with kUnavailable (E0512).
  [[nodiscard]] static Result<Nursery> start();
  Nursery(Nursery&&) = default;
  Nursery& operator=(Nursery&&) = default;

  /// A keeper for the job of this folder (queued.hpp). Fails with kUnavailable (E0512).
  [[nodiscard]] Result<model::ProcessId> keep(const std::string& job_folder);

 private:
  explicit Nursery(Descriptor channel) : channel_(std::move(channel)) {}
  Descriptor channel_;
};

}  // namespace berth::run
