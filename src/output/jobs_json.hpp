// Jobs as JSON, for the API and for `berth jobs --json`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/job.hpp"
#include "model/ledger.hpp"

namespace berth::output {

/// A job to print. `whole`: print everything, because the reader is the job's user or an
/// administrator. For others, the texts that the job's user wrote are left out.
struct ShownJob {
  const model::Job* job = nullptr;
  bool whole = false;
  std::string log = {};  // path of the job's output; "" if there is none
  // for a row with several jobs of an array: these jobs; "" if the row is one job
  std::string alike = {};
};

using model::JobOutlook;

[[nodiscard]] std::string outlook_json(const JobOutlook& outlook);
[[nodiscard]] std::string job_json(const ShownJob& shown);
/// An array and all its jobs.
[[nodiscard]] std::string array_json(model::JobId array, const std::vector<ShownJob>& shown);
/// `not_shown`: how many jobs a limit left out. `notices`: warnings about the broker, for every
/// reader.
[[nodiscard]] std::string jobs_json(const std::vector<ShownJob>& shown,
                                    const model::ClosedUnits& closed, std::size_t not_shown = 0,
                                    const std::vector<Error>& notices = {});

}  // namespace berth::output
