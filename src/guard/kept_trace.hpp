// The counters of a guarded job over time, kept for `berth trace` after the job has ended. Each job
// of this user has one file; only the files of the newest jobs are kept.
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

/// Collects the samples of a running job. If there are many samples, drops every second one and
/// doubles the interval, so that the trace of a long job stays small.
class TraceKeeper {
 public:
  /// Call it often: takes a sample if one is due.
  void look(const LiveLimits& of);
  /// Takes the last sample and writes the file. Call it after the job has ended, while its counters
  /// still exist. Failures are ignored, because the job does not need the file.
  void keep(const LiveLimits& of, std::uint64_t job);

 private:
  using Clock = std::chrono::steady_clock;
  void take(const LiveLimits& of, Clock::time_point now);

  KeptTrace trace_;
  std::optional<Clock::time_point> begun_;
  Clock::time_point due_;
  std::chrono::milliseconds every_{500};
  std::size_t rows_ = 0;  // number of process entries in all samples together
};

/// Reads the stored trace of a job; nullopt if there is none. `started`: when the job started
/// (milliseconds of the wall clock). The job's number alone does not identify it, because an
/// earlier broker may have used the same number.
[[nodiscard]] std::optional<KeptTrace> kept_trace(std::uint64_t job, std::int64_t started);

/// text_of() makes the content of the file, and parse_trace() parses it. nullopt: the content is
/// damaged.
[[nodiscard]] std::string text_of(const KeptTrace& trace);
[[nodiscard]] std::optional<KeptTrace> parse_trace(const std::string& text);

}  // namespace berth::guard
