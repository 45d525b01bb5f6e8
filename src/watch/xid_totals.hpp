// Counts Xids. Plain values, no I/O.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "model/device.hpp"
#include "model/xid_event.hpp"

namespace berth::watch {

/// The position up to which a program has read the kernel log.
struct LogPosition {
  std::string boot;        // each boot numbers its records from 0; "": not known
  std::int64_t last = -1;  // number of the last record that was read; -1: none
  bool operator==(const LogPosition&) const = default;
};

/// The Xids since the sampler started.
struct XidTotals {
  struct Seen {
    std::array<std::uint64_t, 2> counts{};    // number of Xids by source: NVML, the kernel log
    std::int64_t last_unix_milliseconds = 0;  // may be before the start
    /// Both sources report the same events, but each may miss some events.
    [[nodiscard]] std::uint64_t count() const { return std::max(counts[0], counts[1]); }
  };
  bool has_kernel_log = false;  // the kernel log has the Xids of every device
  LogPosition log;              // the position after the last record with an Xid
  /// The key is the PCI address without the function. There is an entry for every device whose Xids
  /// are or were reported by NVML.
  std::map<std::string, std::map<int, Seen>> devices;

  /// An event before the start is not counted, but its time is stored.
  void add(const model::XidEvent& event, std::int64_t start_unix_milliseconds);
  /// The Xids of a device; nullptr if they are not known.
  [[nodiscard]] const std::map<int, Seen>* of(const model::Device& device) const;
};

}  // namespace berth::watch
