// The decisions about a job before anything starts: which devices and cores it gets, and with which
// variables. `berth run` starts the plan; `--dry-run` and `berth env` print it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "base/text.hpp"
#include "client/lease.hpp"
#include "job/machine.hpp"
#include "job/spec.hpp"
#include "model/ledger.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::job {

struct Plan {
  // the request as it was placed; the job may have moved from GPUs to the CPU
  model::Request request;
  model::Snapshot snapshot;  // the state of the machine when the job was placed
  model::Ledger ledger;      // what other jobs hold; only read for a placement without a lease
  std::optional<client::Lease> lease;  // nullopt: the job uses the CPU, or there is no broker
  model::Placement placement;
  model::Environment environment;
  // how long the job waited for its GPUs before it moved to the CPU; nullopt: it did not move
  std::optional<std::chrono::milliseconds> turned_after;
  std::optional<model::EngineJob> engine;  // set if a cluster's scheduler assigned the devices
  std::vector<std::string> container;      // the words that start its container; empty: it has none
  // set for a job with ranks or retries; else nullptr
  std::shared_ptr<run::Supervision> supervision;
  Language language = Language::kEnglish;  // the language of the placement's reasons
};

/// request → look → lease → placement → environment. Looks at the machine once, and again after
/// each wait. Waits until devices are free if the spec allows it. A dry run takes no lease and does
/// not wait. Inside a job, the plan uses that job's devices. Fails with the errors of
/// policy::place(), client::Lease::take(), engines::within() and supervision_of().
[[nodiscard]] Result<Plan> make_plan(const Spec& spec, Machine& machine, const Note& note);

/// The reasons for the placement, in the language that is set now.
[[nodiscard]] std::vector<std::string> reasons_of(const Plan& plan);

}  // namespace berth::job
