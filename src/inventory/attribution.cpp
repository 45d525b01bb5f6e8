// Why memory can be in use although no process accounts for it, most certain reason first:
//
// - list_unknown: the device's process list could not be read
// - not_reported: a process is listed without its memory (WDDM and WSL, some MIG and vGPU), so the
//   sum is too low
// - other_namespace: as above, and the process is in a PID namespace we cannot see
// - zombie: a holder of the device is dead, but one of its threads has not exited yet
// - uninterruptible: a holder is stuck in the kernel, so even SIGKILL does not free its memory
// - mps_server: an MPS server is running and keeps memory that no client is charged for
// - driver_reserve: the driver counts its reserve as used, and the difference is no larger than
// that
// - other_namespace: we are in a container, and the driver does not show processes outside it
// - not_readable: the list comes from /proc, where the caller cannot read some processes
// - not_listed: processes that the driver does not list hold the device open, usually workers whose
//   parent died
// - unknown: none of these
#include "inventory/attribution.hpp"

#include <algorithm>
#include <string_view>

namespace berth::inventory {

namespace {

constexpr std::uint64_t kMiB = 1U << 20U;

/// Used memory and the sum of the processes can differ for two harmless reasons. First, the driver
/// keeps some MiB besides its reserve (displays, page tables, one or two MiB per context). 64 MiB
/// is more than that, but less than the smallest CUDA context, so the idle context of a forgotten
/// process is still found. Second, the numbers are read at different times, and programs may
/// allocate in between. For this, 2 % of the used memory are allowed.
std::uint64_t tolerance(std::uint64_t used) {
  return std::max<std::uint64_t>(64 * kMiB, used / 50);
}

/// Whether the amount is no larger than the reserve that drivers count as used: up to about 600 MiB
/// on data centre GPUs of 80 GB, less on smaller ones.
bool within_reserve(const model::Device& device, std::uint64_t bytes) {
  if (device.readings.memory_reserved_bytes) return false;
  const std::uint64_t total = device.readings.memory_total_bytes.value_or(0);
  return bytes <= std::max<std::uint64_t>(512 * kMiB, total / 100);
}

bool is_mps_server(std::string_view command) {
  const std::string_view program = command.substr(0, command.find(' '));
  return program.ends_with("nvidia-cuda-mps-server") || program == "[nvidia-cuda-mps]";
}

/// Whether this is a daemon that always keeps device nodes open but uses no GPU memory. Such a
/// daemon cannot be the cause of memory in use.
bool is_attendant(std::string_view command) {
  static constexpr std::string_view kAttendants[] = {
      "nvidia-persistenced", "nv-hostengine", "nvidia-powerd", "dcgm-exporter",
      "nv-fabricmanager",    "nvidia-smi",    "nvtop",         "nvidia-cuda-mps-control"};
  std::string_view program = command.substr(0, command.find(' '));
  program.remove_prefix(program.rfind('/') == std::string_view::npos ? 0 : program.rfind('/') + 1);
  return std::find(std::begin(kAttendants), std::end(kAttendants), program) !=
         std::end(kAttendants);
}

std::string cause_of(const model::Device& device, const model::Unattributed& row,
                     const std::vector<model::DeviceProcess>& processes,
                     const ListQuality& quality) {
  if (device.processes_unknown) return "list_unknown";
  bool silent = false, silent_and_hidden = false, mps = false;
  for (const model::DeviceProcess& process : processes) {
    if (process.device != device.index) continue;
    mps = mps || process.kind.mps || is_mps_server(process.command);
    if (process.memory_bytes) continue;
    silent = true;
    silent_and_hidden = silent_and_hidden || (!process.pid && quality.foreign_namespace);
  }
  if (silent) return silent_and_hidden ? "other_namespace" : "not_reported";
  const auto any_holder = [&row](auto&& is) {
    return std::any_of(row.holders.begin(), row.holders.end(), is);
  };
  if (any_holder([](const model::Holder& holder) { return holder.state == "Z"; })) return "zombie";
  if (any_holder([](const model::Holder& holder) { return holder.state == "D"; }))
    return "uninterruptible";
  if (mps || any_holder([](const model::Holder& holder) { return is_mps_server(holder.command); }))
    return "mps_server";
  if (within_reserve(device, row.memory_bytes)) return "driver_reserve";
  if (quality.foreign_namespace) return "other_namespace";
  if (quality.others_unreadable) return "not_readable";
  if (any_holder([](const model::Holder& holder) { return !is_attendant(holder.command); }))
    return "not_listed";
  return "unknown";
}

/// The pid of a listed process in the /proc that was searched for open device nodes; -1 if it is
/// not known.
std::int64_t folder_of(const model::DeviceProcess& process, bool foreign_namespace) {
  if (process.host_pid && !foreign_namespace) return *process.host_pid;
  return process.pid.value_or(-1);
}

bool holds_any(const system::NodeHolder& holder, const std::vector<std::string>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [&holder](const std::string& node) {
    return std::binary_search(holder.nodes.begin(), holder.nodes.end(), node);
  });
}

}  // namespace

std::uint64_t unaccounted_bytes(const model::Device& device,
                                const std::vector<model::DeviceProcess>& processes) {
  // `used` excludes the reserve if the driver reports both (NVML API reference, nvmlMemory_v2_t:
  // total is the sum of reserved, used and free). So do not subtract the reserve again.
  const auto& used = device.readings.memory_used_bytes;
  if (device.memory_unified || !used) return 0;
  std::uint64_t listed = 0;
  for (const model::DeviceProcess& process : processes) {
    if (process.device != device.index) continue;
    const std::uint64_t memory = process.memory_bytes.value_or(0);
    listed = memory > ~std::uint64_t{0} - listed ? ~std::uint64_t{0} : listed + memory;
  }
  if (listed >= *used || *used - listed <= tolerance(*used)) return 0;
  return *used - listed;
}

std::vector<std::string> nodes_of(const model::Device& device) {
  if (!device.minor_number) return {};
  const std::string minor = std::to_string(*device.minor_number);
  if (device.vendor == model::Vendor::kNvidia) return {"/dev/nvidia" + minor};
  return {"/dev/dri/renderD" + minor};
}

model::Unattributed explain(const model::Device& device, std::uint64_t bytes,
                            const std::vector<model::DeviceProcess>& processes,
                            const std::vector<system::NodeHolder>& holders,
                            const ListQuality& quality) {
  model::Unattributed row;
  row.device = device.index;
  row.memory_bytes = bytes;
  const std::vector<std::string> nodes = nodes_of(device);
  for (const system::NodeHolder& holder : holders) {
    const auto listed = [&](const model::DeviceProcess& process) {
      return process.device == device.index &&
             folder_of(process, quality.foreign_namespace) == holder.holder.pid;
    };
    if (holds_any(holder, nodes) && std::none_of(processes.begin(), processes.end(), listed))
      row.holders.push_back(holder.holder);
  }
  row.cause = cause_of(device, row, processes, quality);
  return row;
}

}  // namespace berth::inventory
