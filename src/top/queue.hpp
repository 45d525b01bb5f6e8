// The job queue in the live view: running and waiting jobs, as lines. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "top/line.hpp"

namespace berth::top {

struct QueuedJob {
  std::uint64_t id = 0;
  std::string user, what;
  std::string state;   // the state in the JSON: "running", "waiting", "held"
  double seconds = 0;  // how long the job has been running or waiting
  std::string why;     // why it waits, as in `berth why --json`; "": not known
};

struct Queue {
  bool has_broker = false;
  std::vector<QueuedJob> jobs;
};

/// Reads the jobs in an answer to `GET /v1/jobs`, running jobs first. The answer may be invalid or
/// malicious.
[[nodiscard]] Queue queue_in(const std::string& document, std::int64_t now_unix_milliseconds);
/// Takes the reason why a job waits out of an answer to `GET /v1/jobs/N/why`; "" if it has none.
[[nodiscard]] std::string why_in(const std::string& document);

/// Draws the queue with at most `most` lines (0: no limit). If `has_row`, line `row` is marked as
/// selected.
[[nodiscard]] std::vector<Line> queue_lines(const Queue& queue, int row, bool has_row, int width,
                                            int most);

}  // namespace berth::top
