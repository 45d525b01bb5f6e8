// JobHangs: finds jobs that have used a device before, and use none of their devices now. Pure: the
// frames contain the time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "watch/frame.hpp"

namespace berth::watch {

/// What `berth run` reports about a job whose ranks hang.
struct ReportedHang {
  std::string user;
  std::uint32_t uid = 0;
  std::string sentence;
};
/// By job.
using ReportedHangs = std::map<std::uint64_t, ReportedHang>;

class JobHangs {
 public:
  struct Found {
    std::string user;
    std::optional<std::uint32_t> uid;
    std::vector<std::int64_t> pids;  // pids of the job's processes that use devices
    /// Whether the job uses none of its devices now. nullopt: not known, or the job has never been
    /// seen using a device.
    std::optional<bool> is_still;
  };
  /// Maps a job to what was found. Jobs without a process on a device are left out.
  using Jobs = std::map<std::uint64_t, Found>;
  Jobs add(const Frame& frame);

 private:
  std::map<std::uint64_t, double> worked_;  // jobs that have used a device → last time in a frame
};

}  // namespace berth::watch
