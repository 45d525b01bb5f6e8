// Faults that NVIDIA's driver reports by number (Xids): plain values, and their lines in the kernel
// log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::model {

struct XidEvent {
  std::string device;  // PCI address; the kernel log has it without the function: "0000:01:00"
  int code = 0;
  std::int64_t unix_milliseconds = 0;
};

/// Stands in place of an Xid: the driver has begun to report the Xids of this device.
inline constexpr int kXidsReported = 0;

inline constexpr std::string_view kXidMark = "NVRM: Xid (";
inline constexpr std::string_view kSxidMark =
    "SXid (";  // marks Xids of an NVSwitch, whose lines have the same form

/// The device and the Xid in a line of the kernel log like "NVRM: Xid (PCI:0000:01:00): 79, pid=…".
/// Old drivers write no "PCI:". Sets no time.
[[nodiscard]] std::optional<XidEvent> xid_in_log(std::string_view line, std::string_view mark);

}  // namespace berth::model
