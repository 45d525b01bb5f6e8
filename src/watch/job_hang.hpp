// JobHangs: finds jobs that have used a device, and now use none of their devices. Pure: the frames
// carry the time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "watch/frame.hpp"

namespace berth::watch {

/// A job whose ranks hang, as `berth run` found.
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
    std::vector<std::int64_t> pids;  // the pids of the job's processes on devices
    /// nullopt: not known now, or the job is not known to have used a device before.
    std::optional<bool> is_still;
  };
  /// The key is a job. Jobs without a process on a device are not in the map.
  using Jobs = std::map<std::uint64_t, Found>;
  Jobs add(const Frame& frame);

 private:
  std::map<std::uint64_t, double>
      worked_;  // jobs that have used a device: when they were last seen
};

}  // namespace berth::watch
