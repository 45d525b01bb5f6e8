// Jobs as JSON: the same for the API and for `berth jobs --json`.
#pragma once

#include <string>
#include <vector>

#include "model/job.hpp"

namespace berth::output {

/// `whole`: for its user and administrators. Others see who, what and how long, and no word that
/// its user wrote.
struct ShownJob {
  const model::Job* job = nullptr;
  bool whole = false;
  std::string log = {};  // where its output goes; "" nowhere
};

using model::JobOutlook;

[[nodiscard]] std::string outlook_json(const JobOutlook& outlook);
[[nodiscard]] std::string job_json(const ShownJob& shown);
/// An array with its jobs.
[[nodiscard]] std::string array_json(model::JobId array, const std::vector<ShownJob>& shown);
/// `elsewhere`: units that other brokers of this machine gave away; `drained`: that get no jobs.
[[nodiscard]] std::string jobs_json(const std::vector<ShownJob>& shown,
                                    const std::vector<std::string>& elsewhere,
                                    const std::vector<std::string>& drained);

}  // namespace berth::output
