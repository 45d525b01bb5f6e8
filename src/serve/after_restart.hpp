// What a restart of the machine or a damaged journal means for jobs. Decided from the journal's
// records and the files of the jobs; changes only the given records.
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

/// How a job ended before the machine was restarted. nullopt if its end is not known, or if the
/// machine's shutdown ended it: that does not count as its own end.
[[nodiscard]] std::optional<model::Outcome> outcome_before_restart(const model::Job& job,
                                                                   const Launcher& launcher);

/// Puts jobs back into the queue that ran during the shutdown and have --requeue, or were about to
/// go back anyway. Returns their ids.
[[nodiscard]] std::vector<model::JobId> put_back(std::vector<model::Job>& jobs,
                                                 const Launcher& launcher,
                                                 std::int64_t now_unix_milliseconds);

struct Mended {
  std::set<model::JobId> changed;
  std::vector<model::JobId> held;  // those of these jobs that are held, ascending
};
/// A damaged journal yields an older state of some jobs. If a job was started, its files say what
/// became of it. Without files, the job may have been cancelled or held since then, so it is held.
[[nodiscard]] Mended mend_stale(std::vector<model::Job>& jobs, const broker::Salvage& salvaged,
                                const Launcher& launcher, std::int64_t now_unix_milliseconds);

struct Told {
  std::string sentence, hint;
};
/// The notice for users about it (E0945).
[[nodiscard]] std::vector<Told> words_of(const broker::Salvage& salvaged,
                                         const std::vector<model::JobId>& held);

}  // namespace berth::serve
