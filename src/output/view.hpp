// Filters and sorts a snapshot for display: --device, --user, --mine, --sort. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/snapshot.hpp"

namespace berth::output {

struct View {
  std::vector<std::string> devices;  // selectors (model/device_selector.hpp); empty: all
  std::string user;                  // name or uid; "": all users
  bool mine = false;                 // only processes of `own_uid`
  std::uint32_t own_uid = 0;
  std::string sort;  // one of the sort keys below; "": unsorted
};

/// The values of --sort, as placeholders in the verb table.
inline constexpr const char* kDeviceSortKeys = "index|name|memory|use|temp|power|health";
inline constexpr const char* kProcessSortKeys = "device|memory|sm|cpu|rss|age|user|pid";

/// Keeps the named devices, or those that the user uses, with all their processes. If sorted by a
/// number, the largest comes first and absent ones last. Fails with kNotFound (E0006) if no device
/// remains, and like select_devices().
[[nodiscard]] Result<model::Snapshot> devices_in(const View& view, model::Snapshot snapshot);
/// Keeps the user's processes on the named devices. Also keeps unaccounted memory, unless a user is
/// given.
[[nodiscard]] Result<model::Snapshot> processes_in(const View& view, model::Snapshot snapshot);

}  // namespace berth::output
