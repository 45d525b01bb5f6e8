// Converts samples of a guarded job to counters of a trace file, and sums them up.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/trace_format.hpp"
#include "guard/live.hpp"

namespace berth::cli {

struct TraceDevice {
  std::string name;
  std::optional<std::uint64_t> limit_bytes;
  std::uint64_t peak_bytes = 0;  // the largest memory use in any sample
  // largest memory beyond the limit; nullopt without --spill
  std::optional<std::uint64_t> spilled_peak_bytes;
  // whether device time is measured, which requires that the job has a share
  bool is_timed = false;
  guard::LiveCounts sum;  // growth of the counters during the trace; memory_bytes is not used
};
struct TraceProcess {
  std::int64_t pid = 0;
  std::string name;
  std::uint64_t peak_bytes = 0, launches = 0;  // summed over all devices
};
struct TraceSums {
  std::size_t samples = 0;
  std::vector<TraceDevice> devices;
  std::vector<TraceProcess> processes;
};

class TraceEvents {
 public:
  /// `name_of` returns the name of the process with a pid.
  TraceEvents(TraceFormat format, const std::string& job, std::vector<std::string> devices,
              std::function<std::string(std::int64_t)> name_of);
  /// Adds a sample. Writes only values that have changed since the last sample.
  void add(const guard::LiveJob& job, std::chrono::microseconds at);
  /// Returns the bytes written since the last call. Perfetto can open a file that consists only of
  /// such parts, even if end() was never called.
  [[nodiscard]] std::string take() { return writer_->take(); }
  [[nodiscard]] std::string end() const { return writer_->end(); }
  [[nodiscard]] const TraceSums& sums() const { return sums_; }

 private:
  struct Place {
    std::uint64_t start = 0;
    bool lives = false;
    std::vector<guard::LiveCounts> counts;
  };
  void add_process(const guard::LiveProcess& process, double seconds);
  void put(std::int64_t pid, const std::string& name, const std::vector<TraceValue>& values);
  TraceProcess& process_of(std::int64_t pid);

  std::function<std::string(std::int64_t)> name_of_;
  std::unique_ptr<TraceWriter> writer_;
  std::chrono::microseconds at_{0};
  std::map<std::size_t, Place> places_;
  // last value of each counter
  std::map<std::pair<std::int64_t, std::string>, std::vector<TraceValue>> written_;
  TraceSums sums_;
};

}  // namespace berth::cli
