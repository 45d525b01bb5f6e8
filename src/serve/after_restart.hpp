// Decides what happens to jobs after a restart of the machine or after damage to the journal. Uses
// the journal's records and the files of the jobs, and changes only the given records.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "broker/salvage.hpp"
#include "model/job.hpp"
#include "serve/launcher.hpp"

namespace berth::serve {

/// How a job ended before the machine was restarted. nullopt if this is not known, or if the
/// machine's shutdown ended the job, because the job did not end by itself then.
[[nodiscard]] std::optional<model::Outcome> outcome_before_restart(const model::Job& job,
                                                                   const Launcher& launcher);

/// Puts these jobs back into the queue: jobs with --requeue that ran during the shutdown, and jobs
/// that were going back to the queue anyway. Returns their ids.
[[nodiscard]] std::vector<model::JobId> put_back(std::vector<model::Job>& jobs,
                                                 const Launcher& launcher,
                                                 std::int64_t now_unix_milliseconds);

struct Mended {
  std::set<model::JobId> changed;
  std::vector<model::JobId> held;  // jobs in `changed` that are held; ascending
};
/// Corrects jobs that a damaged journal has only in an older state. If a job was started, its files
/// show how it continued. A job without files is held, because it may have been cancelled or held
/// since then.
[[nodiscard]] Mended mend_stale(std::vector<model::Job>& jobs, const broker::Salvage& salvaged,
                                const Launcher& launcher, std::int64_t now_unix_milliseconds);

struct Told {
  std::string sentence, hint;
};
/// The notices for users about a salvaged journal (E0945).
[[nodiscard]] std::vector<Told> words_of(const broker::Salvage& salvaged,
                                         const std::vector<model::JobId>& held);

}  // namespace berth::serve
