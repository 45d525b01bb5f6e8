// The queue of the live view: jobs that run and wait, as lines. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "top/line.hpp"

namespace berth::top {

struct QueuedJob {
  std::uint64_t id = 0;
  std::string user, what;
  std::string state;   // as in JSON: "running", "waiting", "held"
  double seconds = 0;  // how long the job runs, or has waited
  std::string why;     // an obstruction as in `berth why --json`; "": not asked
};

struct Queue {
  bool has_broker = false;
  std::vector<QueuedJob> jobs;
};

/// The jobs of a document of `GET /v1/jobs`: running ones first. Untrusted.
[[nodiscard]] Queue queue_in(const std::string& document, std::int64_t now_unix_milliseconds);
/// The obstruction in a document of `GET /v1/jobs/N/why`; "" if there is none.
[[nodiscard]] std::string why_in(const std::string& document);

/// At most `most` lines, 0: no limit; the row is marked if `has_row`.
[[nodiscard]] std::vector<Line> queue_lines(const Queue& queue, int row, bool has_row, int width,
                                            int most);

}  // namespace berth::top
