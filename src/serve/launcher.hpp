// Launcher: starts queued jobs and manages their files.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "broker/job_record.hpp"
#include "model/job.hpp"
#include "model/snapshot.hpp"
#include "run/fork_server.hpp"
#include "run/output_file.hpp"
#include "run/queued.hpp"
#include "run/queued_watch.hpp"
#include "serve/retention.hpp"
#include "serve/server.hpp"

namespace berth::serve {

/// How to start the job, from the request and from what the kernel says about the submitter.
[[nodiscard]] run::Launch launch_of(const broker::Submission& asked, const Peer& peer);

class Launcher {
 public:
  /// Creates the folder of the jobs' files. `for_all`: users must be able to reach their logs in
  /// it. Call it before any thread is started. Fails with kUnavailable (E0517) and with the errors
  /// of run::ForkServer::start().
  [[nodiscard]] static Result<Launcher> start(const std::string& state_folder, bool for_all,
                                              std::string lock_folder);

  /// Starts a job whose devices are known; they determine its environment. Fails with the errors of
  /// place() and run::ForkServer::keep().
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
  /// Whether the job ended in order to go back to the queue for its next try.
  [[nodiscard]] bool wants_next_try(model::JobId job) const {
    return run::wants_next_try(files(job));
  }
  [[nodiscard]] model::JobUsage usage(model::JobId job) const { return run::usage_of(files(job)); }
  [[nodiscard]] std::vector<model::ProcessId> stuck(model::JobId job) const {
    return run::stuck_of(files(job));
  }
  [[nodiscard]] std::optional<std::int64_t> ended_at(model::JobId job) const {
    return run::ended_at(files(job));
  }
  [[nodiscard]] std::string log(model::JobId job) const { return run::log_of(files(job)); }
  /// A part of the job's output, starting at this byte; "": there is no more output yet.
  [[nodiscard]] run::OutputPart output(model::JobId job, std::int64_t from, std::size_t most) const;
  /// What the job used and what limited it, in the format of output::stored_report; "" if there is
  /// no report.
  [[nodiscard]] std::string report(model::JobId job,
                                   const std::optional<model::Outcome>& outcome) const;
  /// Stores what report() returns later. Fails with kInvalidArgument (E1084) if `stored` is not a
  /// report, and with kUnavailable (E1085) if it cannot be written.
  [[nodiscard]] Status keep_report(model::JobId job, const std::string& stored,
                                   const std::optional<model::Outcome>& outcome) const;
  /// The files whose sizes count toward the limit of `keep_output`.
  [[nodiscard]] Retention::Files files_to_keep(model::JobId job) const {
    return {log(job), run::report_of(files(job))};
  }
  /// Deletes the record that the job was started; keeps its output.
  void forget_start(model::JobId job) const { run::forget_start(files(job)); }
  void forget(model::JobId job) const { run::remove_files(files(job)); }
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  Launcher(std::string folder, std::string locks, run::ForkServer fork_server)
      : folder_(std::move(folder)),
        locks_(std::move(locks)),
        fork_server_(std::move(fork_server)) {}
  [[nodiscard]] std::string files(model::JobId job) const {
    return folder_ + "/" + std::to_string(job);
  }

  std::string folder_, locks_;  // the folders of job files, and of device locks ("": none)
  run::ForkServer fork_server_;
};

}  // namespace berth::serve
