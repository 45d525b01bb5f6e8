// Reads new Xids from the kernel log. The driver writes all Xids there, also those that NVML does
// not report.
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
  bool is_new = true;  // false: an earlier process has already read this record
};

class KernelLog {
 public:
  /// `file`: /dev/kmsg. If it cannot be opened, there are no events. The first take() returns the
  /// events of the last hour. `boot_id`: the file /proc/sys/kernel/random/boot_id. `seen`: how far
  /// an earlier process has read.
  explicit KernelLog(const std::string& file, const std::string& boot_id = "",
                     const LogPosition& seen = {});
  [[nodiscard]] bool is_open() const { return static_cast<bool>(file_); }
  /// Returns the Xids since the last call. Never waits.
  [[nodiscard]] std::vector<LoggedXid> take();
  [[nodiscard]] const LogPosition& position() const { return position_; }

 private:
  void read_record(std::string_view record, std::vector<LoggedXid>& events);
  Descriptor file_;
  LogPosition position_;
  std::int64_t seen_ = -1;  // number of the last record that an earlier process has read
};

}  // namespace berth::watch
