// Counts the Xids of each device. Plain values, no I/O.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "model/device.hpp"
#include "model/xid_event.hpp"

namespace berth::watch {

/// How far a process has read the kernel log.
struct LogPosition {
  std::string boot;  // id of the boot, because each boot numbers its records from 0; "": unknown
  std::int64_t last = -1;  // number of the last record that was read; -1: none
  bool operator==(const LogPosition&) const = default;
};

/// The Xids since the sampler started.
struct XidTotals {
  struct Seen {
    std::array<std::uint64_t, 2> counts{};    // number of events from NVML, and from the kernel log
    std::int64_t last_unix_milliseconds = 0;  // may be before the sampler's start
    /// Returns the number of events. Both sources report the same events, but each may miss some.
    /// So take the larger number.
    [[nodiscard]] std::uint64_t count() const { return std::max(counts[0], counts[1]); }
  };
  bool has_kernel_log = false;  // the kernel log can be read; it has the Xids of all devices
  LogPosition log;              // position of the last record with an Xid
  /// The key is the PCI address without the function. There is an entry for every device whose Xids
  /// NVML reports, or has reported.
  std::map<std::string, std::map<int, Seen>> devices;

  /// Adds an event. An event from before the start is not counted, but its time is stored.
  void add(const model::XidEvent& event, std::int64_t start_unix_milliseconds);
  /// Returns the Xids of a device; nullptr if it is unknown whether it had any.
  [[nodiscard]] const std::map<int, Seen>* of(const model::Device& device) const;
};

}  // namespace berth::watch
