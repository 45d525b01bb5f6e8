// The counters of a guarded job over time, kept for `berth trace` after the job has ended: a file
// of this user for each job, for the newest jobs.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "guard/live.hpp"

namespace berth::guard {

struct KeptTrace {
  struct Sample {
    std::chrono::microseconds at{0};  // time since the start of the trace
    LiveJob job;
  };
  std::int64_t started_unix_milliseconds = 0;
  std::vector<Sample> samples;
  std::map<std::int64_t, std::string> names;  // names of the processes, by pid
};

/// Collects the samples of a running job. If they become many, every second one is dropped and the
/// interval doubles, so that a long job also has few.
class TraceKeeper {
 public:
  /// Call it often: takes a sample if one is due.
  void look(const LiveLimits& of);
  /// After the end of the job, while its counters exist: takes the last sample, and writes the
  /// file. Failures are ignored, because the job does not need the file.
  void keep(const LiveLimits& of, std::uint64_t job);

 private:
  using Clock = std::chrono::steady_clock;
  void take(const LiveLimits& of, Clock::time_point now);

  KeptTrace trace_;
  std::optional<Clock::time_point> begun_;
  Clock::time_point due_;
  std::chrono::milliseconds every_{500};
  std::size_t rows_ = 0;  // processes in all samples
};

/// nullopt if nothing was stored for this job. `started`: when the job started (milliseconds of the
/// wall clock), because another broker may have used the same number earlier.
[[nodiscard]] std::optional<KeptTrace> kept_trace(std::uint64_t job, std::int64_t started);

/// Write and parse the content of the file. nullopt: it is damaged.
[[nodiscard]] std::string text_of(const KeptTrace& trace);
[[nodiscard]] std::optional<KeptTrace> parse_trace(const std::string& text);

}  // namespace berth::guard
