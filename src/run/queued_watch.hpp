// Samples a queued job, and writes its report to JOBS/N.report. This is a process of its own, not
// below the keeper, so that it is neither counted nor ended as a process of the job. It is not
// started for a job that ends within half a second, because the fork would cost more than the job.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/descriptor.hpp"
#include "model/run.hpp"
#include "run/launch.hpp"

namespace berth::run {

/// Makes a report. It is called once in each language.
using MakeReport = std::function<model::Report()>;
/// Makes the content of JOBS/N.report.
using WriteReport = std::function<std::string(const MakeReport&)>;

/// How a queued job ended. The keeper sends it to the watch.
struct WatchEnd {
  std::int32_t status = 0;        // wait status of the job's command
  std::int32_t by_itself = 1;     // 1: the job ended by itself; 0: Berth ended it
  std::int64_t milliseconds = 0;  // time from the job's start to its end
  std::int64_t cpu_microseconds = 0;
  std::int64_t peak_rss_kib = 0;
  model::CheckpointSignal checkpoint = {};
};

/// How long after the job's start the watch starts.
inline constexpr std::chrono::milliseconds kWatchFrom{500};

/// Starts the watch for the job of this keeper, as a child of the keeper's parent. Returns a
/// channel for one WatchEnd. If the channel is closed without a WatchEnd, no report is written. -1
/// if the watch cannot be started. `announce`: the watch writes its pid there, so that its parent
/// does not take it for a process left by a killed keeper.
[[nodiscard]] Descriptor start_watch(const Launch& launch, pid_t workload, const WriteReport& write,
                                     int announce);

/// The path of the file JOBS/N.report.
[[nodiscard]] std::string report_of(const std::string& job_files);
/// Opens the report for writing by the job's user. A job with ranks contains a `berth run`, which
/// writes a better report than the keeper could. -1 if that fails.
[[nodiscard]] Descriptor open_report_for(const Launch& launch);
/// `berth run --queue --ranks` sets it; the keeper replaces the value with the descriptor number.
inline constexpr const char* kReportVariable = "BERTH_JOB_REPORT";

}  // namespace berth::run
