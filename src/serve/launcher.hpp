// Launcher: the folders of queued jobs, and their start. What a job needs (its variables above all)
// stays on disk, readable by its user alone, and but for the last in nobody's memory.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"
#include "broker/job_record.hpp"
#include "model/job.hpp"
#include "model/snapshot.hpp"
#include "run/nursery.hpp"
#include "serve/server.hpp"

namespace berth::serve {

class Launcher {
 public:
  using Variables = std::map<std::string, std::string>;
  /// `for_all`: jobs of all users, who come to their logs. Start it before there are threads.
  /// Fails as run::Nursery::start.
  [[nodiscard]] static Result<Launcher> start(std::string state_folder, bool for_all);

  /// Makes the job's folder and keeps in it what its submitter asked for. Who it is the kernel
  /// says. Fails with kUnavailable (E0517).
  /// An array has one such folder for all its jobs.
  [[nodiscard]] Status prepare(model::JobId id, const broker::Submission& asked, const Peer& peer);
  /// Starts a job that runs: its environment comes from its devices. Fails as place(),
  /// run::read_launch, run::Nursery::keep.
  [[nodiscard]] Result<model::ProcessId> start_job(const model::Job& job,
                                                   const model::Snapshot& snapshot);
  [[nodiscard]] std::optional<model::ProcessId> keeper(model::JobId job) const;
  [[nodiscard]] std::optional<model::Outcome> outcome(model::JobId job) const;
  [[nodiscard]] std::string log(model::JobId job) const { return folder(job) + "/log"; }
  void forget(model::JobId job) const;

 private:
  Launcher(std::string state_folder, bool for_all, run::Nursery nursery)
      : state_folder_(std::move(state_folder)), for_all_(for_all), nursery_(std::move(nursery)) {}
  [[nodiscard]] Status make_folder(model::JobId job) const;
  /// With which a job or an array was submitted.
  [[nodiscard]] Result<const Variables*> variables(model::JobId launched);
  [[nodiscard]] std::string folder(model::JobId job) const {
    return state_folder_ + "/jobs/" + std::to_string(job);
  }

  std::string state_folder_;
  bool for_all_ = false;
  run::Nursery nursery_;
  std::pair<model::JobId, Variables> last_;  // that were asked for or written
};

}  // namespace berth::serve
