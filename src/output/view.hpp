// Filters and sorts a snapshot for display: --device, --user, --mine, --sort. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/snapshot.hpp"

namespace berth::output {

struct View {
  // the devices as the user named them (model/device_selector.hpp); empty means all
  std::vector<std::string> devices;
  std::string user;   // name or uid; "" means all users
  bool mine = false;  // show only processes of `own_uid`
  std::uint32_t own_uid = 0;
  std::string sort;  // one of the sort keys below; "" means unsorted
};

/// The allowed values of --sort, in the form of the verb table.
inline constexpr const char* kDeviceSortKeys = "index|name|memory|use|temp|power|health";
inline constexpr const char* kProcessSortKeys = "device|memory|sm|cpu|rss|age|user|pid";

/// Keeps the named devices or those that the user uses, with all their processes. If sorted by a
/// number, the largest comes first and absent ones come last. Fails with kNotFound (E0006) if no
/// device is left, or with the errors of select_devices().
[[nodiscard]] Result<model::Snapshot> devices_in(const View& view, model::Snapshot snapshot);
/// Keeps the processes of the user on the named devices. If no user was given, also keeps memory
/// that no process accounts for.
[[nodiscard]] Result<model::Snapshot> processes_in(const View& view, model::Snapshot snapshot);

}  // namespace berth::output
