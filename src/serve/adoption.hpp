// Adoption: a journal can be lost while job files remain and jobs still run. Rebuilds jobs from
// their files. Moves unreadable files aside and lists them. Deletes nothing and ends no job.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "broker/broker.hpp"
#include "model/job.hpp"

namespace berth::serve {

/// Files in the jobs folder without a job in the journal.
struct UnknownFiles {
  std::vector<model::Job> jobs;     // rebuilt jobs, by ascending id
  std::vector<model::JobId> aside;  // jobs whose unreadable files were moved; ascending
  std::string folder;               // folder with the moved files
  std::vector<model::JobId> alone;  // running jobs whose unreadable files were not moved; ascending
  model::JobId highest = 0;         // highest job number in the folder, also of jobs in the journal
};

/// `jobs_folder`: STATE/jobs. `is_known`: whether the journal contains the job; then its files
/// stay. `forgotten`: jobs that the journal recorded as deleted; their files are deleted.
[[nodiscard]] UnknownFiles adopt_unknown_files(const std::string& jobs_folder,
                                               const std::function<bool(model::JobId)>& is_known,
                                               const std::vector<model::JobId>& forgotten,
                                               std::int64_t now_unix_milliseconds);

/// Rebuilds the job from its keeper's record and the files about its result. nullopt if they are
/// not readable. `files`: STATE/jobs/N.
[[nodiscard]] std::optional<model::Job> job_from_files(const std::string& files, model::JobId id,
                                                       std::int64_t now_unix_milliseconds);

/// The sentences for the log about what was found.
[[nodiscard]] std::vector<std::string> words_of(const UnknownFiles& found);

/// A sentence about running jobs that no broker knows.
[[nodiscard]] std::string left_alone(const std::vector<model::JobId>& ascending);

/// Formats job ids as text, for example "3, 5-9, 12". The number of parts is limited.
[[nodiscard]] std::string list_of_jobs(const std::vector<model::JobId>& ascending);

}  // namespace berth::serve
