#include "output/view.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "model/device_selector.hpp"

namespace berth::output {
namespace {

using model::Device;
using model::DeviceProcess;
using model::Selected;
using model::Snapshot;

bool asked_for_user(const View& view) {
  return view.mine || !view.user.empty();
}

bool is_theirs(const View& view, const DeviceProcess& process) {
  if (view.mine && process.uid != view.own_uid) return false;
  if (view.user.empty() || process.user == view.user) return true;
  const auto uid = to_number(view.user);
  return uid && process.uid && *uid == *process.uid;
}

Error nothing_left(const View& view, const Snapshot& seen) {
  std::vector<std::string> users;
  for (const DeviceProcess& process : seen.processes)
    if (!process.user.empty() && std::find(users.begin(), users.end(), process.user) == users.end())
      users.push_back(process.user);
  std::string hint = "berth ps";
  if (asked_for_user(view) && !users.empty()) {
    std::string names;
    for (const std::string& user : users) names += (names.empty() ? "" : ", ") + printable(user);
    hint = text("users on devices now: {}", names) + "\nberth ps";
  }
  std::string message(tr("no process uses these devices"));
  if (view.mine)
    message = tr("no process of yours uses these devices");
  else if (!view.user.empty())
    message = text("no process of '{}' uses these devices", printable(view.user));
  return {ErrorCode::kNotFound, "E0006", std::move(message), std::move(hint)};
}

/// Whether a partition of the device is selected. All partitions are selected if the device itself
/// is.
bool partition_chosen(const std::vector<Selected>& chosen, int device, const std::string& uuid) {
  return std::any_of(chosen.begin(), chosen.end(), [&](const Selected& one) {
    return one.device == device && (one.partition_uuid.empty() || one.partition_uuid == uuid);
  });
}

Result<Snapshot> with_named_devices(const View& view, Snapshot snapshot) {
  if (view.devices.empty()) return snapshot;
  const auto chosen = model::select_devices(snapshot.devices, view.devices);
  if (!chosen) return chosen.error();
  const auto named = [&](int device) {
    return std::any_of(chosen->begin(), chosen->end(),
                       [&](const Selected& one) { return one.device == device; });
  };
  std::erase_if(snapshot.devices, [&](const Device& device) { return !named(device.index); });
  for (Device& device : snapshot.devices)
    std::erase_if(device.partitions, [&](const model::Partition& part) {
      return !partition_chosen(*chosen, device.index, part.uuid);
    });
  std::erase_if(snapshot.processes, [&](const DeviceProcess& process) {
    return !partition_chosen(*chosen, process.device, process.partition_uuid);
  });
  std::erase_if(snapshot.unattributed,
                [&](const model::Unattributed& memory) { return !named(memory.device); });
  return snapshot;
}

/// Compares two readings for sorting: larger ones first, absent ones last.
template <typename T>
bool more(const std::optional<T>& a, const std::optional<T>& b) {
  if (!a || !b) return a.has_value() && !b.has_value();
  return *a > *b;
}

template <typename Row, typename Less>
void sort_rows(std::vector<Row>& rows, Less less) {
  std::stable_sort(rows.begin(), rows.end(), less);
}

void sort_devices(std::vector<Device>& devices, const std::string& key) {
  const auto by = [&](auto member) {
    sort_rows(devices, [member](const Device& a, const Device& b) {
      return more((a.readings.*member).value, (b.readings.*member).value);
    });
  };
  if (key == "memory") by(&model::DeviceReadings::memory_used_bytes);
  if (key == "use") by(&model::DeviceReadings::utilization_percent);
  if (key == "temp") by(&model::DeviceReadings::temperature_celsius);
  if (key == "power") by(&model::DeviceReadings::power_milliwatts);
  if (key == "name")
    sort_rows(devices, [](const Device& a, const Device& b) { return a.name < b.name; });
  if (key == "index")
    sort_rows(devices, [](const Device& a, const Device& b) { return a.index < b.index; });
  if (key == "health") {  // the worst health comes first
    const auto rank = [](const Device& device) {
      switch (device.health) {
        case model::Health::kLost:
          return 0;
        case model::Health::kNoAnswer:
          return 1;
        case model::Health::kDegraded:
          return 2;
        case model::Health::kNotChecked:
          return 3;
        case model::Health::kOk:
          return 4;
        case model::Health::kAsleep:
          return 5;
      }
      return 6;
    };
    sort_rows(devices, [&](const Device& a, const Device& b) { return rank(a) < rank(b); });
  }
}

void sort_processes(std::vector<DeviceProcess>& processes, const std::string& key) {
  const auto by = [&](auto member) {
    sort_rows(processes, [member](const DeviceProcess& a, const DeviceProcess& b) {
      return more((a.*member).value, (b.*member).value);
    });
  };
  if (key == "memory") by(&DeviceProcess::memory_bytes);
  if (key == "sm") by(&DeviceProcess::sm_percent);
  if (key == "cpu") by(&DeviceProcess::cpu_percent);
  if (key == "rss") by(&DeviceProcess::rss_bytes);
  if (key == "age") by(&DeviceProcess::age_seconds);
  if (key == "device")
    sort_rows(processes, [](const auto& a, const auto& b) { return a.device < b.device; });
  if (key == "user")
    sort_rows(processes, [](const auto& a, const auto& b) { return a.user < b.user; });
  if (key == "pid")
    sort_rows(processes, [](const auto& a, const auto& b) {
      return a.pid.value_or(INT64_MAX) < b.pid.value_or(INT64_MAX);
    });
}

}  // namespace

Result<Snapshot> devices_in(const View& view, Snapshot snapshot) {
  auto named = with_named_devices(view, std::move(snapshot));
  if (!named) return named;
  if (asked_for_user(view)) {
    const auto used = [&](const Device& device) {
      return std::any_of(named->processes.begin(), named->processes.end(),
                         [&](const auto& process) {
                           return process.device == device.index && is_theirs(view, process);
                         });
    };
    std::erase_if(named->devices, [&](const Device& device) { return !used(device); });
    if (named->devices.empty()) return nothing_left(view, *named);
  }
  sort_devices(named->devices, view.sort);
  return named;
}

Result<Snapshot> processes_in(const View& view, Snapshot snapshot) {
  auto named = with_named_devices(view, std::move(snapshot));
  if (!named) return named;
  if (asked_for_user(view)) {
    const Snapshot all = *named;
    std::erase_if(named->processes,
                  [&](const DeviceProcess& process) { return !is_theirs(view, process); });
    named->unattributed.clear();
    if (named->processes.empty()) return nothing_left(view, all);
  }
  if (!view.devices.empty() && named->processes.empty() && named->unattributed.empty())
    return nothing_left(view, *named);
  sort_processes(named->processes, view.sort);
  return named;
}

}  // namespace berth::output
