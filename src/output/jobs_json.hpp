// Jobs as JSON, for the API and for `berth jobs --json`.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/job.hpp"

namespace berth::output {

/// `whole`: for the job's user and administrators. Others see user, resources and times, but no
/// text that the user wrote.
struct ShownJob {
  const model::Job* job = nullptr;
  bool whole = false;
  std::string log = {};    // where its output goes; "" if nowhere
  std::string alike = {};  // of an array: the jobs this one represents; "" only itself
};

using model::JobOutlook;

[[nodiscard]] std::string outlook_json(const JobOutlook& outlook);
[[nodiscard]] std::string job_json(const ShownJob& shown);
/// An array with its jobs.
[[nodiscard]] std::string array_json(model::JobId array, const std::vector<ShownJob>& shown);
/// `elsewhere`: units assigned by other brokers of this machine; `drained`: units that get no jobs;
/// `not_shown`: jobs omitted because of a limit; `notices`: warnings about the broker for every
/// reader.
[[nodiscard]] std::string jobs_json(const std::vector<ShownJob>& shown,
                                    const std::vector<std::string>& elsewhere,
                                    const std::vector<std::string>& drained,
                                    std::size_t not_shown = 0,
                                    const std::vector<Error>& notices = {});

}  // namespace berth::output
