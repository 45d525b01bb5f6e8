// Reads new Xids from the kernel log, where the driver also writes those that NVML does not report.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"
#include "model/xid_event.hpp"
#include "watch/xid_totals.hpp"

namespace berth::watch {

struct LoggedXid {
  model::XidEvent event;
  bool is_new = true;  // false: it is before the position that an earlier program had reached
};

class KernelLog {
 public:
  /// `file`: /dev/kmsg. If it cannot be opened, there are no events. The first take() returns the
  /// events of the last hour. `boot_id`: the file /proc/sys/kernel/random/boot_id. `seen`: what an
  /// earlier program has read.
  explicit KernelLog(const std::string& file, const std::string& boot_id = "",
                     const LogPosition& seen = {});
  [[nodiscard]] bool is_open() const { return static_cast<bool>(file_); }
  /// Never waits.
  [[nodiscard]] std::vector<LoggedXid> take();
  [[nodiscard]] const LogPosition& position() const { return position_; }

 private:
  void read_record(std::string_view record, std::vector<LoggedXid>& events);
  Descriptor file_;
  LogPosition position_;
  std::int64_t seen_ = -1;  // number of the last record that is not new
};

}  // namespace berth::watch
