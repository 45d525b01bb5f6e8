// Reads new Xids from the kernel log, where the driver also writes those that NVML does not report.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"
#include "model/xid_event.hpp"

namespace berth::watch {

class KernelLog {
 public:
  /// `file`: /dev/kmsg. If it cannot be opened, there are no events. The first take() returns those
  /// of the last hour.
  explicit KernelLog(const std::string& file);
  [[nodiscard]] bool is_open() const { return static_cast<bool>(file_); }
  /// Never waits.
  [[nodiscard]] std::vector<model::XidEvent> take();

 private:
  void read_record(std::string_view record, std::vector<model::XidEvent>& events) const;
  Descriptor file_;
};

}  // namespace berth::watch
