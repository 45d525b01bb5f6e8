// Selects the jobs that a call to GET /v1/jobs asks for by its query (keys: docs/api.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/job.hpp"

namespace berth::serve {

struct Selection {
  std::vector<const model::Job*> jobs;
  std::size_t not_shown = 0;  // the number of jobs that are missing because of "limit"
  /// With "compact", one job stands for all similar jobs of its array. Maps the id of this job to
  /// the indices of the similar jobs, for example "1-9,12".
  std::map<model::JobId, std::string> alike;
};

/// Selects from jobs that are ordered by number. With a limit, the result has running jobs first,
/// then waiting ones, then ended ones, latest first. Without a limit, it is ordered by number.
/// Fails with kInvalidArgument (E0919).
[[nodiscard]] Result<Selection> select_jobs(const std::vector<const model::Job*>& jobs,
                                            const std::map<std::string, std::string>& query,
                                            std::uint32_t caller, std::int64_t now);

}  // namespace berth::serve
