// Samples of a guarded job as counters of a trace file, and their sums.
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
  std::uint64_t peak_bytes = 0;                     // largest memory in the samples
  std::optional<std::uint64_t> spilled_peak_bytes;  // peak beyond the limit; nullopt: no --spill
  bool is_timed = false;  // device time is measured, because the job has a share
  guard::LiveCounts sum;  // growth of the counters during the trace; memory_bytes is not used
};
struct TraceProcess {
  std::int64_t pid = 0;
  std::string name;
  std::uint64_t peak_bytes = 0, launches = 0;  // on all devices
};
struct TraceSums {
  std::size_t samples = 0;
  std::vector<TraceDevice> devices;
  std::vector<TraceProcess> processes;
};

class TraceEvents {
 public:
  /// `name_of`: the name of the process with this pid.
  TraceEvents(TraceFormat format, const std::string& job, std::vector<std::string> devices,
              std::function<std::string(std::int64_t)> name_of);
  /// Adds a sample; a value is written only if it changed.
  void add(const guard::LiveJob& job, std::chrono::microseconds at);
  /// The bytes written since the last call. Perfetto can open a file that contains only these
  /// parts, even if end() was never called.
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
  std::map<std::pair<std::int64_t, std::string>, std::vector<TraceValue>> written_;  // the newest
  TraceSums sums_;
};

}  // namespace berth::cli
