// Jobs as JSON, for the API and for `berth jobs --json`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/job.hpp"
#include "model/ledger.hpp"

namespace berth::output {

/// `whole` is for the job's user and for administrators. Without it, for other users, the document
/// has user, resources and times, but no text that the job's user wrote.
struct ShownJob {
  const model::Job* job = nullptr;
  bool whole = false;
  std::string log = {};    // path of its output; "" if none
  std::string alike = {};  // for an array: the jobs in this row; "" if it is only this job
};

using model::JobOutlook;

[[nodiscard]] std::string outlook_json(const JobOutlook& outlook);
[[nodiscard]] std::string job_json(const ShownJob& shown);
/// An array together with its jobs.
[[nodiscard]] std::string array_json(model::JobId array, const std::vector<ShownJob>& shown);
/// `not_shown`: jobs omitted because of a limit; `notices`: warnings about the broker for every
/// reader.
[[nodiscard]] std::string jobs_json(const std::vector<ShownJob>& shown,
                                    const model::ClosedUnits& closed, std::size_t not_shown = 0,
                                    const std::vector<Error>& notices = {});

}  // namespace berth::output
