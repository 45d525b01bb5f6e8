// Launcher: starts queued jobs, and knows their files.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "broker/job_record.hpp"
#include "model/job.hpp"
#include "model/snapshot.hpp"
#include "run/nursery.hpp"
#include "run/queued.hpp"
#include "serve/server.hpp"

namespace berth::serve {

/// What a submitter asked for. Who it is the kernel says.
[[nodiscard]] run::Launch launch_of(const broker::Submission& asked, const Peer& peer);

class Launcher {
 public:
  /// Makes the folder of the jobs' files; `for_all`: of jobs of all users, who come to their logs.
  /// Call it before there are threads. Fails with kUnavailable (E0517) and as run::Nursery::start.
  [[nodiscard]] static Result<Launcher> start(const std::string& state_folder, bool for_all,
                                              std::string lock_folder);

  /// Starts a job that runs: its environment comes from its devices. Fails as place(),
  /// run::Nursery::keep.
  [[nodiscard]] Result<model::ProcessId> start_job(const model::Job& job, run::Launch launch,
                                                   const model::Snapshot& snapshot);
  [[nodiscard]] std::optional<model::ProcessId> keeper(model::JobId job) const {
    return run::keeper_of(files(job));
  }
  [[nodiscard]] std::optional<model::Outcome> outcome(model::JobId job) const {
    return run::outcome_of(files(job));
  }
  [[nodiscard]] bool was_told_to_end(model::JobId job) const {
    return run::was_told_to_end(files(job));
  }
  [[nodiscard]] std::optional<std::int64_t> ended_at(model::JobId job) const {
    return run::ended_at(files(job));
  }
  [[nodiscard]] std::string log(model::JobId job) const { return run::log_of(files(job)); }
  /// What it wrote, from a byte on; "": no more yet.
  [[nodiscard]] std::string output(model::JobId job, std::int64_t from, std::size_t most) const;
  /// That it was started; its output stays.
  void forget_start(model::JobId job) const { run::remove_status(files(job)); }
  void forget(model::JobId job) const { run::remove_files(files(job)); }
  /// What a broker that died between two steps has left.
  void forget_all_but(const std::function<bool(model::JobId)>& known) const;
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  Launcher(std::string folder, std::string locks, run::Nursery nursery)
      : folder_(std::move(folder)), locks_(std::move(locks)), nursery_(std::move(nursery)) {}
  [[nodiscard]] std::string files(model::JobId job) const {
    return folder_ + "/" + std::to_string(job);
  }

  std::string folder_, locks_;  // of the jobs' files; of the devices' locks, "": none
  run::Nursery nursery_;
};

}  // namespace berth::serve
