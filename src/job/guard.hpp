// The guard of one job. It is set up before the command starts, and its counters are read after the
// command has ended.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "client/lease.hpp"
#include "guard/setup.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "run/sampler.hpp"

namespace berth::job {

class Guard {
 public:
  /// Checks an isolation: auto, guard or none. Fails with kInvalidArgument (E0106).
  [[nodiscard]] static Status check(const std::string& isolation);
  /// Adds the guard's variables to `environment`; for a container, it does not change them, and
  /// files() says what to mount. Fails only with isolation "guard" (E0520), or if the memory is too
  /// little for CUDA itself (E0956). If it fails, it removes the job's folder.
  [[nodiscard]] static Result<Guard> begin(const std::string& isolation, bool in_container,
                                           const model::Request& request,
                                           const model::Placement& placement,
                                           const model::Snapshot& snapshot,
                                           const std::string& job_folder,
                                           std::vector<std::string>& environment);
  [[nodiscard]] std::vector<guard::MountedFile> files() const;
  /// While the job runs: answers `berth resize`, and charges contexts and modules.
  void look(std::optional<client::Lease>& lease, const run::Sampler& sampler);
  /// After the job's end: reads the counters and removes the files.
  void end();
  /// Adds to the report what was enforced, and whether the guard saw GPU use that the samples
  /// missed.
  void fill(model::Report& report) const;

 private:
  std::chrono::steady_clock::time_point ask_again_;  // the broker, for what `berth resize` granted
  std::optional<guard::Wish> wish_;                  // how long to wait for the broker
  std::map<int, std::int64_t> sampled_;              // by device: the newest sample that was used
  std::optional<guard::Setup> setup_;
  std::optional<model::Guarded> guarded_;
};

}  // namespace berth::job
