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
};

using model::JobOutlook;

[[nodiscard]] std::string outlook_json(const JobOutlook& outlook);
[[nodiscard]] std::string job_json(const ShownJob& shown);
/// `elsewhere`: units that other brokers of this machine gave away.
[[nodiscard]] std::string jobs_json(const std::vector<ShownJob>& shown,
                                    const std::vector<std::string>& elsewhere);

}  // namespace berth::output
