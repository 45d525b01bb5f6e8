// What the user asked one job to be. Plain values, which the command line or another caller fills.
#pragma once

#include <map>
#include <string>

#include "job/ranks.hpp"
#include "model/job.hpp"
#include "policy/environment.hpp"

namespace berth::job {

struct Spec {
  model::Job job;  // its request, command, name and limits
  SupervisionWish supervision;
  std::map<std::string, std::string> variables;  // of the caller
  policy::EnvironmentOptions environment;
  std::string isolation = "auto";  // of a shared GPU: auto, guard or none
  bool may_wait = true;            // for devices that others hold
  bool dry_run = false;            // make the plan, and start nothing
  bool quiet = false;              // the supervisor prints no messages of its own

  /// A dry run shows what is free now.
  [[nodiscard]] bool waits() const { return may_wait && !dry_run; }
};

}  // namespace berth::job
