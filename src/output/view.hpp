// Which part of a snapshot a screen shows, and in which order: --device, --user, --mine, --sort.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/snapshot.hpp"

namespace berth::output {

struct View {
  std::vector<std::string> devices;  // selectors (model/device_selector.hpp); none: all
  std::string user;                  // name or uid; "": everybody
  bool mine = false;                 // only processes of `own_uid`
  std::uint32_t own_uid = 0;
  std::string sort;  // one of the keys below; "": as the snapshot is
};

/// What --sort may be, as placeholders of the verb table.
inline constexpr const char* kDeviceSortKeys = "index|name|memory|use|temp|power|health";
inline constexpr const char* kProcessSortKeys = "device|memory|sm|cpu|rss|age|user|pid";

/// Devices that are named, or used by the user; with all their processes. Numbers sort largest
/// first, absent last. Fails with kNotFound (E0006) where nothing is left, and as select_devices()
/// does.
[[nodiscard]] Result<model::Snapshot> devices_in(const View& view, model::Snapshot snapshot);
/// Processes on the devices that are named, of the user; memory nobody accounts for stays unless a
/// user is asked for.
[[nodiscard]] Result<model::Snapshot> processes_in(const View& view, model::Snapshot snapshot);

}  // namespace berth::output
