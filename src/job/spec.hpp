// What the user requested for one job. The command line or another caller fills in the values.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "engines/container.hpp"
#include "job/isolation.hpp"
#include "job/ranks.hpp"
#include "model/job.hpp"
#include "policy/environment.hpp"
#include "run/queued_tries.hpp"

namespace berth::job {

struct Spec {
  model::Job job;  // its request, command, name and limits
  SupervisionWish supervision;
  std::map<std::string, std::string> variables;  // environment variables of the caller
  policy::EnvironmentOptions environment;
  std::optional<engines::ContainerWish> container;  // nullopt: no container
  Isolation isolation = Isolation::kAuto;           // --isolation, on a shared GPU
  bool strict = false;   // --strict: do not run anything that the guard cannot limit
  bool may_wait = true;  // wait for devices that other jobs have
  bool dry_run = false;  // only make the plan
  std::optional<run::EarlierTries> earlier;  // tries of a queued job in earlier leases
  bool quiet = false;                        // the supervisor prints no messages

  /// A dry run does not wait: it shows what is free now.
  [[nodiscard]] bool waits() const { return may_wait && !dry_run; }
};

}  // namespace berth::job
