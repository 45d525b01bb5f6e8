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

/// Of a job that waits.
struct JobOutlook {
  struct Release {
    model::JobId job = 0;
    std::int64_t unix_milliseconds = 0;
    bool by_limit = false;
  };
  std::string_view obstruction = "nothing";  // as policy's words
  std::vector<model::JobId> before;
  std::optional<std::int64_t> fits_at;  // when it would fit if nobody else came
  std::vector<Release> releases;        // of what runs
};

[[nodiscard]] std::string outlook_json(const JobOutlook& outlook);
[[nodiscard]] std::string job_json(const ShownJob& shown);
[[nodiscard]] std::string jobs_json(const std::vector<ShownJob>& shown);

}  // namespace berth::output
