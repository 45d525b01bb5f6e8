// The guard of one job. It is set up before the command starts, and its counters are read after the
// command has ended.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "client/lease.hpp"
#include "guard/kept_trace.hpp"
#include "guard/setup.hpp"
#include "job/isolation.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"
#include "run/sampler.hpp"

namespace berth::job {

class Guard {
 public:
  /// Adds the variables of the guard, and of a stronger isolation method, to `environment`. For a
  /// container, files() says what to mount. Fails if the requested method is not available (E1067,
  /// E1068, E1069; E0520: the guard; E1091: --strict). Fails if memory cannot be spilled (E1096),
  /// or if the memory is too little for CUDA itself (E0956). If it fails, it removes the job's
  /// folder.
  [[nodiscard]] static Result<Guard> begin(Isolation wanted, IsolatedJob job,
                                           const std::string& job_folder,
                                           std::vector<std::string>& environment);
  [[nodiscard]] std::vector<guard::MountedFile> files() const;
  /// Call it while the job runs. Answers `berth resize`, counts the memory of contexts and modules,
  /// and looks for processes without the guard.
  void look(std::optional<client::Lease>& lease, const run::Sampler& sampler);
  /// Reads the counters and removes the files. Call it after the job has ended.
  void end();
  /// Adds to the report what was enforced, and whether the guard saw GPU use that the samples
  /// missed.
  void fill(model::Report& report) const;

 private:
  [[nodiscard]] Status set_up(Isolation method, const model::Request& request,
                              const IsolatedJob& job, const std::string& job_folder,
                              std::vector<std::string>& environment);

  void add_unguarded(model::Report& report) const;
  void look_for_unguarded(const run::Sampler::Held& held);
  void answer_wish(std::optional<client::Lease>& lease);

  /// A process of the job that used a device without the guard.
  struct Unguarded {
    std::uint64_t bytes = 0;  // upper bound of the memory that the process used; 0: not known
    std::string command;
    bool ended = false;  // whether Berth ended it because of --strict
  };
  std::map<std::int64_t, Unguarded> unguarded_;  // by pid
  bool is_strict_ = false;
  std::chrono::steady_clock::time_point
      ask_again_;                    // when to ask the broker again which limits it granted
  std::optional<guard::Wish> wish_;  // a request of `berth resize` that has not been answered yet
  std::map<int, std::int64_t> sampled_;       // time of the newest sample that was used, by device
  bool is_required_ = false;                  // the job must not start without the guard
  std::string method_;                        // the value for model::Guarded::method
  std::optional<int> threads_percent_;        // the value for model::Guarded::threads_percent
  std::vector<model::GuardedDevice> limits_;  // the requested limits of each device
  std::optional<guard::Setup> setup_;
  guard::TraceKeeper trace_;
  std::uint64_t job_ = 0;  // the number of the job's lease; 0: no lease
  std::optional<model::Guarded> guarded_;
};

}  // namespace berth::job
