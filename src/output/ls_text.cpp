#include <algorithm>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/device_selector.hpp"
#include "model/device_use.hpp"
#include "output/header.hpp"
#include "output/screens.hpp"
#include "output/table.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using model::Device;
using model::DeviceKind;
using model::Health;

// Limits for the width of the name column, unless all columns were requested.
constexpr int kLeastName = 14, kMostName = 24;
constexpr int kUnlimited = 10'000;  // columns

std::string power_of(const model::DeviceReadings& readings) {
  const auto& power = readings.power_milliwatts;
  const auto& limit = readings.power_limit_milliwatts;
  if (!power) return limit ? "-/" + show_power(*limit) : "-";
  if (!limit) return show_power(*power);
  std::string used = show_power(*power);
  // Remove the unit, because it is the same as that of the limit that follows.
  if (used.size() > 2) used.resize(used.size() - 2);
  return used + "/" + show_power(*limit);
}

std::string clock_of(const model::DeviceReadings& readings) {
  const auto& clock = readings.clock_sm_mhz ? readings.clock_sm_mhz : readings.clock_graphics_mhz;
  return clock ? std::to_string(*clock) : "-";
}

/// The PCIe link, such as "5 ×16": its current generation and its lanes. Missing lanes are marked.
/// A lower generation is not marked, because power saving causes it.
std::string link_of(const model::DeviceReadings& readings) {
  const auto& generation = readings.pcie_generation;
  const auto& width = readings.pcie_width;
  if (!generation && !width) return "-";
  std::string out = generation ? std::to_string(*generation) : "-";
  if (width) out += fmt::format(" ×{}", *width);
  if (width && readings.pcie_width_max && *readings.pcie_width_max > *width)
    out += text(" of {}", *readings.pcie_width_max);
  return out;
}

std::string mode_of(const Device& device) {
  return device.compute_mode == "default" ? "" : mode_words(device.compute_mode);
}

/// Why the device is closed to all jobs: "drained", "leased by …".
std::vector<std::string> closed_words(const std::vector<model::Holding>& leases) {
  std::vector<std::string> words;
  for (const model::Holding& one : leases)
    if (one.job == 0)
      words.emplace_back(one.user.empty() ? tr("drained") : tr("leased by another user's broker"));
  return words;
}

/// The users of a device or of one of its partitions: "lin, zhao (no lease), chen (job 7)". In this
/// example, chen has a lease but no process on the device.
std::string users_of(const Device& device, const std::string& partition,
                     const model::Snapshot& snapshot) {
  auto leases = leases_of(device, snapshot);
  if (!device.partitions.empty())
    std::erase_if(leases, [&](const model::Holding& one) {
      return partition.empty() ? one.unit != device.uuid : one.unit != partition;
    });
  std::vector<std::string> names = closed_words(leases);
  std::vector<std::uint64_t> there;  // jobs that have a process on the device
  for (const model::DeviceProcess& process : snapshot.processes) {
    if (process.device != device.index ||
        (!partition.empty() && process.partition_uuid != partition))
      continue;
    if (process.job) there.push_back(*process.job);
    std::string name = process.user.empty() ? "?" : printable(process.user);
    if (snapshot.lacks_lease(process)) name = text("{} (no lease)", name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  for (const model::Holding& one : leases)
    if (one.job != 0 && std::find(there.begin(), there.end(), one.job) == there.end())
      names.push_back(text("{} (job {})", printable(one.user), one.job_words()));
  if (device.processes_unknown) names.insert(names.begin(), std::string(tr("not known")));
  return join(names, ", ");
}

/// The last column: the users of the device, or a remark if there are none.
Cell last_cell(const Device& device, const model::Snapshot& snapshot) {
  if (std::string users = users_of(device, "", snapshot); !users.empty())
    return device.processes_unknown ? users + ": " + printable(device.note) : users;
  // If the driver's message is printed above the table, it applies to all devices of this driver.
  const bool said_above = !snapshot.driver.message.empty() &&
                          device.vendor == model::Vendor::kNvidia &&
                          device.kernel_driver != "vfio-pci";
  if (!device.managed && said_above) return {};
  if (!device.managed) return {std::string(tr("seen, not managed")), Style::kDim};
  if (device.health == Health::kNoAnswer || device.health == Health::kLost) {
    const std::string why = health_words(device);
    return {device.age_seconds ? text("last seen {} ago", show_age(*device.age_seconds)) : why,
            Style::kDim};
  }
  if (device.health == Health::kDegraded || model::use_unknown(device))
    return {health_words(device), Style::kDim};
  if (device.kind == DeviceKind::kCpu) {
    const model::CpuBudget& cpu = snapshot.host.cpu;
    if (cpu.cores_total == 0) return {std::string(tr("cores not known")), Style::kDim};
    return {text_n("{} core", "{} cores", cpu.cores_usable, cpu.cores_usable), Style::kDim};
  }
  // The note of an OpenCL device is its platform's name, which is no remark.
  if (device.kind == DeviceKind::kOpenCl) return {};
  return {printable(device.note), Style::kDim};
}

/// The NUMA node of a device; "" if no device has one. Most machines have only one node, and it has
/// no number.
std::string node_of(const Device& device, const model::Snapshot& snapshot) {
  if (device.numa_node) return std::to_string(*device.numa_node);
  const bool some = std::any_of(snapshot.devices.begin(), snapshot.devices.end(),
                                [](const Device& one) { return one.numa_node.has_value(); });
  return some && !device.pci_address.empty() ? "-" : "";
}

/// Adds a row for each partition. Uuids and addresses are long, so they are shown only with --wide
/// and --details.
void add_partitions(Table& table, const Device& device, const model::Snapshot& snapshot,
                    bool wide) {
  for (const model::Partition& part : device.partitions) {
    const std::string name =
        fmt::format(" └ {} {}", model::unit_name(device, part.uuid), printable(part.name));
    table.add({"", name, wide ? printable(part.uuid) : "", "",
               show_used(part.memory_used_bytes, part.memory_total_bytes),
               part.utilization_percent ? show_percent(part.utilization_percent) : "", "", "", "",
               "", "", "", "", "", users_of(device, part.uuid, snapshot)});
  }
}

void add_device(Table& table, const Device& device, const model::Snapshot& snapshot, bool wide,
                int name_width) {
  const bool on_pci = !device.pci_address.empty();
  const auto& readings = device.readings;
  // CPUs and OpenCL devices never report temperature or power, so do not mark these values as
  // missing.
  const bool card = device.kind != DeviceKind::kCpu && device.kind != DeviceKind::kOpenCl;
  const Style dim = device.health == Health::kAsleep ? Style::kDim : Style::kPlain;
  const auto hide = [&](std::string shown) {
    return !card && shown == "-" ? "" : std::move(shown);
  };
  table.add({Cell(std::to_string(device.index), Style::kBold),
             Cell(clip(short_name(namesake(snapshot, device)), name_width), dim),
             wide ? printable(device.uuid) : "", wide ? printable(device.pci_address) : "",
             show_used(readings.memory_used_bytes, readings.memory_total_bytes),
             hide(show_percent(readings.utilization_percent)),
             hide(show_celsius(readings.temperature_celsius)), hide(power_of(readings)),
             hide(clock_of(readings)), on_pci ? link_of(readings) : "", node_of(device, snapshot),
             mode_of(device), Cell(slowed_by(device), Style::kYellow),
             Cell(std::string(word_for(device.health)), style_for(device.health)),
             last_cell(device, snapshot)});
  add_partitions(table, device, snapshot, wide);
}

/// The width of the name column: the longest name of a GPU within limits, or the longest name of
/// all if there is no GPU. The CPU's name is clipped.
int name_width(const model::Snapshot& snapshot) {
  int longest = 0, gpus = 0;
  for (const Device& device : snapshot.devices) {
    const int width = display_width(short_name(device));
    longest = std::max(longest, width);
    if (device.kind != DeviceKind::kCpu && device.kind != DeviceKind::kOpenCl)
      gpus = std::max(gpus, width);
  }
  for (const Device& device : snapshot.devices)
    for (const model::Partition& part : device.partitions)
      gpus = std::max(gpus, display_width(part.name) + 5);
  return gpus == 0 ? longest : std::clamp(gpus, kLeastName, kMostName);
}

bool is_out(const Device& device) {
  return device.health == Health::kLost || device.health == Health::kNoAnswer ||
         device.health == Health::kDegraded;
}

/// Lines that tell why devices cannot be used, if the table had no room for these reasons.
std::string reasons_left_out(const model::Snapshot& snapshot, const std::string& rows,
                             const Terminal& terminal) {
  std::string out;
  for (const Device& device : snapshot.devices) {
    const std::string reason = is_out(device) ? last_cell(device, snapshot).text : "";
    if (rows.find(reason) == std::string::npos)
      out += labelled("", text("{}: {}", text("device {}", device.index), reason), 0, terminal);
  }
  return out.empty() ? out : "\n" + out;
}

std::string footer(const std::vector<std::string>& dropped, const Terminal& terminal) {
  if (dropped.empty()) return "";
  std::string out;
  for (const std::string& line :
       wrap(text("not shown: {} (berth ls --wide)", join(dropped, ", ")), terminal.width))
    out += terminal.paint(Style::kDim, line) + "\n";
  return "\n" + out;
}

}  // namespace

std::string ls_text(const model::Snapshot& snapshot, const Terminal& given, bool wide) {
  Terminal terminal = given;
  if (wide) terminal.width = kUnlimited;
  Table table({{"", true},
               {std::string(tr("device")), false, kMostName},
               {"uuid"},
               {"PCI"},
               {std::string(tr("memory")), true},
               {std::string(tr("use")), true},
               {std::string(tr("temp")), true, 0, 2},
               {std::string(tr("power")), true, 0, 3},
               {"MHz", true, 0, 5},
               {"PCIe", false, 0, 6},
               {"NUMA", true, 0, 7},
               {std::string(tr("mode")), false, 0, 4},
               {std::string(tr("slowed")), false, 0, 1},
               {std::string(tr("health"))},
               {std::string(tr("users")), false, kLeastText}});
  const int names = wide || !given.is_limited ? kUnlimited : name_width(snapshot);
  for (const Device& device : snapshot.devices) add_device(table, device, snapshot, wide, names);
  std::vector<std::string> dropped;
  const std::string rows = table.render(terminal, &dropped);
  std::string out = header(snapshot, given) + driver_problem(snapshot, given) + "\n" + rows;
  out += footer(dropped, given) + reasons_left_out(snapshot, rows, given);
  if (!snapshot.notes.empty()) out += "\n";
  for (const std::string& note : snapshot.notes) out += labelled("", printable(note), 0, given);
  return given.spell(std::move(out));
}

}  // namespace berth::output
