#include "watch/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/text_parts.hpp"
#include "model/device_use.hpp"
#include "watch/guard_shares.hpp"
#include "watch/join.hpp"
#include "watch/usage_meter.hpp"

namespace berth::watch {

namespace {

using model::Device;

/// The readings of a device by name, with values that are derived from them.
struct Values {
  const Device* device = nullptr;
  std::map<std::string_view, double> by_name;
  std::string labels = {};  // additional labels if this is a partition
};

Values values_of(const Device& device) {
  Values values;
  values.device = &device;
  model::for_each_reading(device.readings, [&](std::string_view name, const auto& reading) {
    if (reading) values.by_name.emplace(name, static_cast<double>(*reading));
  });
  const auto& total = device.readings.memory_total_bytes;
  const auto& used = device.readings.memory_used_bytes;
  const std::uint64_t taken = used.value_or(0) + device.readings.memory_reserved_bytes.value_or(0);
  if (total && used && *total >= taken)
    values.by_name.emplace("memory_free_bytes", static_cast<double>(*total - taken));
  return values;
}

bool is_exported(const Device& device, Dialect dialect) {
  if (dialect != Dialect::kBerth && device.vendor != model::Vendor::kNvidia) return false;
  return device.kind != model::DeviceKind::kCpu && device.kind != model::DeviceKind::kOpenCl;
}

/// Escapes a label's value. Only three characters need it (backslash, quote, newline), because the
/// text is already valid UTF-8.
std::string label_value(std::string_view value) {
  std::string out = "\"";
  for (const char c : printable(value)) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

/// Builds the labels {a="1",b="2"}. A label with an empty value is omitted.
class Labels {
 public:
  Labels& add(std::string_view name, std::string_view value) {
    if (value.empty()) return *this;
    text_ += text_.empty() ? "" : ",";
    text_.append(name).append("=").append(label_value(value));
    return *this;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string show(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (value == std::floor(value) && std::abs(value) < 9e15)
    return std::to_string(static_cast<std::int64_t>(value));
  // 12 significant digits hide rounding errors, for example of a multiplication by 0.01.
  return fmt::format("{:.12g}", value);
}

class Writer {
 public:
  explicit Writer(Exposition exposition) : open_(exposition == Exposition::kOpenMetrics) {}

  /// Begins a metric. The `name` of a counter must end in "_total".
  void family(std::string_view name, std::string_view unit, std::string_view type,
              std::string_view help) {
    std::string_view base = name;
    if (open_ && type == "counter" && base.ends_with("_total")) base.remove_suffix(6);
    if (open_ && base.ends_with("_info")) {
      base.remove_suffix(5);
      type = "info";
    }
    fmt::format_to(std::back_inserter(out_), "# HELP {} {}\n# TYPE {} {}\n", base, help, base,
                   type);
    if (open_ && !unit.empty() && base.ends_with(unit))
      fmt::format_to(std::back_inserter(out_), "# UNIT {} {}\n", base, unit);
  }
  void sample(std::string_view name, const std::string& labels, double value) {
    out_ += name;
    if (!labels.empty()) out_.append("{").append(labels).append("}");
    out_.append(" ").append(show(value)).append("\n");
  }
  [[nodiscard]] std::string finish() {
    if (open_) out_ += "# EOF\n";
    return std::move(out_);
  }

 private:
  bool open_;
  std::string out_;
};

std::string without_prefix(std::string_view uuid) {
  return std::string(uuid.starts_with("GPU-") ? uuid.substr(4) : uuid);
}

/// Converts "0000:81:00.0" to the form with eight digits that NVML and DCGM use.
std::string long_address(const std::string& address) {
  std::string upper = address;
  for (char& c : upper)
    if (c >= 'a' && c <= 'f') c = static_cast<char>(c - 'a' + 'A');
  return address.empty() ? "" : (upper.find(':') == 4 ? "0000" + upper : upper);
}

std::string labels_of(const Device& device, const Frame& frame, Dialect dialect) {
  Labels labels;
  const std::string index = std::to_string(device.index);
  const std::string theirs = device.vendor_index ? std::to_string(*device.vendor_index) : index;
  switch (dialect) {
    case Dialect::kBerth:
      labels.add("device", index).add("uuid", key_of(device));
      break;
    case Dialect::kNvidiaSmi:
      labels.add("uuid", without_prefix(device.uuid));
      break;
    case Dialect::kDcgm:
      // Add the host name as Hostname and as hostname: dashboards before 2026 read the first, newer
      // ones read the second.
      labels.add("gpu", theirs)
          .add("UUID", device.uuid)
          .add("pci_bus_id", long_address(device.pci_address))
          .add("device",
               "nvidia" + (device.minor_number ? std::to_string(*device.minor_number) : theirs))
          .add("modelName", device.name)
          .add("Hostname", frame.snapshot.host.hostname)
          .add("hostname", frame.snapshot.host.hostname)
          .add("DCGM_FI_DRIVER_VERSION", frame.snapshot.driver.version);
      break;
  }
  return labels.text();
}

/// Adds the info metric of each device. A query can use it to add the name of the device to other
/// metrics, by uuid.
void add_info(Writer& out, const Frame& frame, const std::vector<Values>& devices,
              Dialect dialect) {
  const model::Driver& driver = frame.snapshot.driver;
  if (dialect == Dialect::kNvidiaSmi) {
    out.family("nvidia_smi_gpu_info", "", "gauge", "What does not change of a GPU.");
    for (const Values& one : devices) {
      const Device& device = *one.device;
      Labels labels;
      labels.add("uuid", without_prefix(device.uuid))
          .add("name", device.name)
          .add("index", device.vendor_index ? std::to_string(*device.vendor_index) : "")
          .add("driver_version", driver.version)
          .add("cuda_version", driver.cuda_version)
          .add("pci_bus_id", long_address(device.pci_address))
          .add("compute_cap", device.compute_capability);
      out.sample("nvidia_smi_gpu_info", labels.text(), 1);
    }
    return;
  }
  if (dialect != Dialect::kBerth) return;
  out.family("berth_device_info", "", "gauge", "What does not change of a device; joined by uuid.");
  for (const Values& one : devices) {
    const Device& device = *one.device;
    const bool nvidia = device.vendor == model::Vendor::kNvidia;
    Labels labels;
    labels.add("device", std::to_string(device.index))
        .add("uuid", key_of(device))
        .add("name", device.name)
        .add("kind", model::name(device.kind))
        .add("vendor", model::name(device.vendor))
        .add("pci_address", device.pci_address)
        .add("architecture", device.architecture)
        .add("compute_capability", device.compute_capability)
        .add("driver_version", nvidia ? driver.version : "");
    out.sample("berth_device_info", labels.text(), 1);
  }
}

bool knows_throttling(const Device& device) {
  return device.vendor == model::Vendor::kNvidia && answers(device) &&
         device.health != model::Health::kAsleep;
}

/// Reasons that make a GPU slower. hw_slowdown is left out, because it also occurs while clocks
/// change.
constexpr std::array<std::string_view, 4> kSlowing = {"sw_power_cap", "sw_thermal", "hw_thermal",
                                                      "hw_power_brake"};

void add_states(Writer& out, const Frame& frame, const std::vector<Values>& devices) {
  const auto labels = [&](const Values& one) {
    return labels_of(*one.device, frame, Dialect::kBerth);
  };
  out.family("berth_device_up", "", "gauge", "1: the device answers; 0: lost, or no answer.");
  for (const Values& one : devices)
    out.sample("berth_device_up", labels(one), answers(*one.device) ? 1 : 0);
  out.family("berth_device_processes_known", "", "gauge",
             "1: the processes of the device could be read; 0: it is unknown who uses it.");
  for (const Values& one : devices)
    out.sample("berth_device_processes_known", labels(one),
               model::users_unknown(*one.device) ? 0 : 1);
  out.family("berth_device_degraded", "", "gauge",
             "1: errors or throttling by hardware; no series if nothing could be checked.");
  for (const Values& one : devices)
    if (one.device->health == model::Health::kOk || one.device->health == model::Health::kDegraded)
      out.sample("berth_device_degraded", labels(one),
                 one.device->health == model::Health::kDegraded ? 1 : 0);
  out.family("berth_device_throttled", "", "gauge", "1: this reason keeps the clocks low now.");
  for (const Values& one : devices) {
    if (!knows_throttling(*one.device)) continue;
    const auto& now = one.device->throttle_reasons;
    for (const std::string_view reason : kSlowing)
      out.sample("berth_device_throttled", labels(one) + ",reason=" + label_value(reason),
                 std::find(now.begin(), now.end(), reason) != now.end() ? 1 : 0);
  }
}

/// Adds the memory in use that belongs to no process. Omitted if the processes or their memory are
/// unknown.
void add_unattributed(Writer& out, const Frame& frame, const std::vector<Values>& devices) {
  out.family("berth_device_memory_without_process_bytes", "bytes", "gauge",
             "Memory in use that no process of the driver's list accounts for.");
  for (const Values& one : devices) {
    const Device& device = *one.device;
    if (!device.readings.memory_used_bytes || device.memory_unified || !answers(device) ||
        model::users_unknown(device))
      continue;
    std::optional<double> bytes = 0;
    for (const model::Unattributed& row : frame.snapshot.unattributed)
      if (row.device == device.index)
        bytes = row.cause == "list_unknown" || row.cause == "not_reported"
                    ? std::nullopt
                    : std::optional(static_cast<double>(row.memory_bytes));
    if (bytes)
      out.sample("berth_device_memory_without_process_bytes",
                 labels_of(device, frame, Dialect::kBerth), *bytes);
  }
}

/// Calls each(device, partition) for all MIG partitions.
template <typename Each>
void for_each_partition(const std::vector<Values>& devices, Each&& each) {
  for (const Values& one : devices)
    for (const model::Partition& partition : one.device->partitions) each(*one.device, partition);
}

/// Whether a pod's device has this uuid. In a ResourceSlice, a device's name is its uuid in lower
/// case, and the name of a part of a device has an additional suffix.
bool has_uuid(const DevicePod& pod, std::string_view uuid) {
  const std::string_view device = pod.device;
  if (uuid.empty() || device.size() < uuid.size()) return false;
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  for (std::size_t i = 0; i < uuid.size(); ++i)
    if (lower(device[i]) != lower(uuid[i])) return false;
  return device.size() == uuid.size() || device[uuid.size()] == '-';
}

/// Returns the Kubernetes labels (namespace, pod, container) of each container that has the device
/// or partition with this uuid.
std::set<std::string> pods_with(const std::vector<DevicePod>& pods, std::string_view uuid) {
  std::set<std::string> found;
  for (const DevicePod& one : pods)
    if (has_uuid(one, uuid))
      found.insert(Labels()
                       .add("namespace", one.space)
                       .add("pod", one.pod)
                       .add("container", one.container)
                       .text());
  return found;
}

void add_pods(Writer& out, const Frame& frame, const std::vector<Values>& devices,
              const std::vector<DevicePod>& pods) {
  if (pods.empty()) return;
  out.family("berth_device_pod_info", "", "gauge",
             "A container of Kubernetes that has the device, or a part of it; joined by uuid.");
  for (const Values& one : devices) {
    const std::string labels = labels_of(*one.device, frame, Dialect::kBerth) + ",";
    for (const std::string& pod : pods_with(pods, one.device->uuid))
      out.sample("berth_device_pod_info", labels + pod, 1);
    for (const model::Partition& part : one.device->partitions)
      for (const std::string& pod : pods_with(pods, part.uuid))
        out.sample(
            "berth_device_pod_info",
            labels + Labels().add("partition", std::to_string(part.index)).text() + "," + pod, 1);
  }
}

/// Returns the labels of the container that has the device, as in dcgm-exporter. If several
/// containers have the device, returns none: each value is exported only once.
std::string pod_labels(const std::vector<DevicePod>& pods, std::string_view uuid) {
  const auto found = pods_with(pods, uuid);
  return found.size() == 1 ? "," + *found.begin() : "";
}

std::string number_or_empty(const std::optional<std::uint32_t>& number) {
  return number ? std::to_string(*number) : "";
}

/// Returns the profile in a partition's name: "1g.10gb" for "MIG 1g.10gb".
std::string_view profile_of(const model::Partition& partition) {
  const std::string_view name = partition.name;
  return name.starts_with("MIG ") ? name.substr(4) : name;
}

void add_partitions(Writer& out, const Frame& frame, const std::vector<Values>& devices) {
  const auto labels = [&](const Device& device, const model::Partition& partition) {
    return labels_of(device, frame, Dialect::kBerth) +
           ",partition=" + label_value(std::to_string(partition.index));
  };
  bool has_any = false;
  for_each_partition(devices, [&](const Device&, const auto&) { has_any = true; });
  if (!has_any) return;
  out.family("berth_partition_info", "", "gauge", "What does not change of a MIG partition.");
  for_each_partition(devices, [&](const Device& device, const model::Partition& partition) {
    Labels more;
    more.add("partition_uuid", partition.uuid)
        .add("profile", profile_of(partition))
        .add("gpu_instance", number_or_empty(partition.gpu_instance))
        .add("compute_instance", number_or_empty(partition.compute_instance));
    out.sample("berth_partition_info",
               labels(device, partition) + (more.text().empty() ? "" : ",") + more.text(), 1);
  });
  const auto add = [&](std::string_view name, std::string_view unit, std::string_view help,
                       auto&& value) {
    out.family(name, unit, "gauge", help);
    for_each_partition(devices, [&](const Device& device, const model::Partition& partition) {
      if (const std::optional<double> known = value(partition))
        out.sample(name, labels(device, partition), *known);
    });
  };
  const auto number = [](const auto& reading) {
    return reading ? std::optional(static_cast<double>(*reading)) : std::nullopt;
  };
  add("berth_partition_memory_total_bytes", "bytes",
      "Memory of the GPU instance of a MIG partition, which its compute instances share.",
      [&](const model::Partition& one) { return number(one.memory_total_bytes); });
  add("berth_partition_memory_used_bytes", "bytes",
      "Memory in use in the GPU instance of a MIG partition.",
      [&](const model::Partition& one) { return number(one.memory_used_bytes); });
}

/// Berth's names of the reasons for low clocks, and those of nvidia_gpu_exporter.
constexpr auto kReasonNames = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"idle", "gpu_idle"},
     {"applications_clocks", "applications_clocks_setting"},
     {"sw_power_cap", "sw_power_cap"},
     {"hw_slowdown", "hw_slowdown"},
     {"sync_boost", "sync_boost"},
     {"sw_thermal", "sw_thermal_slowdown"},
     {"hw_thermal", "hw_thermal_slowdown"},
     {"hw_power_brake", "hw_power_brake_slowdown"}});

/// Returns the number that NVML uses for the device's compute mode.
std::optional<double> compute_mode_of(const Device& device) {
  if (device.compute_mode == "default") return 0;
  if (device.compute_mode == "exclusive process") return 3;
  if (device.compute_mode == "prohibited") return 2;
  return std::nullopt;
}

/// Adds the largest compute processes of each device. They are exported only if the user requested
/// it, because each new pid adds a series.
void add_compute_apps(Writer& out, const Frame& frame, const std::vector<Values>& devices,
                      std::size_t most) {
  const auto each = [&](std::string_view name, auto&& value) {
    out.family(name, "", "gauge", "Compute processes.");
    for (const Values& one : devices) {
      // The list is sorted by memory, so the first processes are the largest.
      std::size_t count = 0;
      for (const model::DeviceProcess& process : frame.snapshot.processes) {
        if (process.device != one.device->index || !process.kind.compute || !process.host_pid)
          continue;
        if (++count > most) break;
        const std::optional<double> known = value(process);
        if (!known) continue;
        out.sample(name,
                   Labels()
                       .add("uuid", without_prefix(one.device->uuid))
                       .add("pid", std::to_string(*process.host_pid))
                       .add("process_name", process.command.substr(0, process.command.find(' ')))
                       .text(),
                   *known);
      }
    }
  };
  each("nvidia_smi_compute_app_info", [](const auto&) { return std::optional<double>(1); });
  each("nvidia_smi_compute_app_used_memory_bytes", [](const model::DeviceProcess& process) {
    return process.memory_bytes ? std::optional(static_cast<double>(*process.memory_bytes))
                                : std::nullopt;
  });
  out.family("nvidia_smi_compute_apps_last_collect_success", "", "gauge",
             "1: the processes of all devices could be read.");
  out.sample("nvidia_smi_compute_apps_last_collect_success", "",
             std::none_of(devices.begin(), devices.end(),
                          [](const Values& one) { return model::users_unknown(*one.device); })
                 ? 1
                 : 0);
}

/// Adds the metrics of nvidia_gpu_exporter that are not measured values, such as names and
/// versions.
void add_nvidia_smi(Writer& out, const Frame& frame, const std::vector<Values>& devices) {
  const auto labels = [&](const Device& device) {
    return labels_of(device, frame, Dialect::kNvidiaSmi);
  };
  const auto add = [&](const std::string& name, std::string_view help, auto&& value) {
    out.family(name, "", "gauge", help);
    for (const Values& one : devices)
      if (const std::optional<double> known = value(*one.device))
        out.sample(name, labels(*one.device), *known);
  };
  add("nvidia_smi_index", "index", [](const Device& device) {
    return device.vendor_index ? std::optional<double>(*device.vendor_index) : std::nullopt;
  });
  add("nvidia_smi_compute_mode", "compute_mode", compute_mode_of);
  add("nvidia_smi_mig_mode_current", "mig.mode.current", [](const Device& device) {
    return device.mig_enabled ? std::optional<double>(*device.mig_enabled ? 1 : 0) : std::nullopt;
  });
  // Export both names: since driver 535 these are "event reasons", before they were "throttle
  // reasons". Dashboards read either.
  for (const std::string_view word : {"event", "throttle"})
    for (const auto& [reason, name] : kReasonNames)
      add(fmt::format("nvidia_smi_clocks_{}_reasons_{}", word, name),
          fmt::format("clocks_{}_reasons.{}", word, name),
          [&, wanted = reason](const Device& device) -> std::optional<double> {
            if (!knows_throttling(device)) return std::nullopt;
            const auto& now = device.throttle_reasons;
            return std::find(now.begin(), now.end(), wanted) != now.end() ? 1 : 0;
          });
  bool has_any = false;
  for_each_partition(devices, [&](const Device&, const auto&) { has_any = true; });
  if (!has_any) return;
  out.family("nvidia_smi_mig_info", "", "gauge", "MIG devices.");
  for_each_partition(devices, [&](const Device& device, const model::Partition& partition) {
    const std::string uuid =
        partition.uuid.starts_with("MIG-") ? partition.uuid.substr(4) : partition.uuid;
    out.sample("nvidia_smi_mig_info",
               Labels()
                   .add("uuid", without_prefix(device.uuid))
                   .add("mig_uuid", uuid)
                   .add("gpu_instance_id", number_or_empty(partition.gpu_instance))
                   .add("compute_instance_id", number_or_empty(partition.compute_instance))
                   .add("profile", profile_of(partition))
                   .text(),
               1);
  });
  for (const bool is_total : {true, false}) {
    const char* const name =
        is_total ? "nvidia_smi_mig_memory_total_bytes" : "nvidia_smi_mig_memory_used_bytes";
    // One series per GPU instance: its compute instances share the memory.
    std::set<std::string> seen;
    out.family(name, "", "gauge", "Memory of a GPU instance.");
    for_each_partition(devices, [&](const Device& device, const model::Partition& partition) {
      const auto& bytes = is_total ? partition.memory_total_bytes : partition.memory_used_bytes;
      const std::string all = Labels()
                                  .add("uuid", without_prefix(device.uuid))
                                  .add("gpu_instance_id", number_or_empty(partition.gpu_instance))
                                  .text();
      if (bytes && partition.gpu_instance && seen.insert(all).second)
        out.sample(name, all, static_cast<double>(*bytes));
    });
  }
}

/// What one user uses on one device.
struct Part {
  double memory_bytes = 0, share = 0;
  bool has_memory = false, has_share = false;
  int processes = 0;
};

/// The maximum number of users per device that are exported, because the number of series must be
/// limited.
constexpr std::size_t kMostUsers = 64;

void add_users(Writer& out, const Frame& frame, const std::vector<Values>& devices) {
  std::map<int, std::map<std::string, Part>> parts;
  for (const model::DeviceProcess& process : frame.snapshot.processes) {
    auto& users = parts[process.device];
    const std::string user = process.user.empty() ? "unknown" : process.user;
    if (!users.contains(user) && users.size() >= kMostUsers) continue;
    Part& part = users[user];
    ++part.processes;
    part.has_memory = part.has_memory || process.memory_bytes;
    part.memory_bytes += static_cast<double>(process.memory_bytes.value_or(0));
    const std::optional<double> share = time_share(process);
    part.has_share = part.has_share || share;
    part.share += share.value_or(0);
  }
  const auto each = [&](std::string_view name, auto&& value) {
    for (const Values& one : devices)
      for (const auto& [user, part] : parts[one.device->index])
        if (const std::optional<double> known = value(part))
          out.sample(name,
                     labels_of(*one.device, frame, Dialect::kBerth) + ",user=" + label_value(user),
                     *known);
  };
  out.family("berth_user_processes", "", "gauge", "Processes of a user on a device.");
  each("berth_user_processes",
       [](const Part& part) { return std::optional(1.0 * part.processes); });
  out.family("berth_user_memory_bytes", "bytes", "gauge",
             "Device memory of a user's processes, as far as the driver tells it.");
  each("berth_user_memory_bytes", [](const Part& part) {
    return part.has_memory ? std::optional(part.memory_bytes) : std::nullopt;
  });
  out.family("berth_user_utilization_ratio", "ratio", "gauge",
             "Time share of a user's processes, as far as the guard or the driver tells it.");
  each("berth_user_utilization_ratio", [](const Part& part) {
    return part.has_share ? std::optional(part.share * 0.01) : std::nullopt;
  });
}

/// Adds the jobs on each device. A job without a process on a device has no series for it.
void add_jobs(Writer& out, const Frame& frame, const std::vector<Values>& devices) {
  std::map<int, std::map<std::string, Part>> jobs;
  for (const model::DeviceProcess& process : frame.snapshot.processes) {
    if (!process.job) continue;
    Part& part =
        jobs[process.device]
            [Labels().add("job_id", std::to_string(*process.job)).add("user", process.user).text()];
    // If the memory of one process is unknown, the job's sum is unknown: the sum of the others
    // would be too small.
    part.has_memory = (part.processes == 0 || part.has_memory) && process.memory_bytes;
    part.memory_bytes += static_cast<double>(process.memory_bytes.value_or(0));
    const std::optional<double> share = time_share(process);
    part.has_share = (part.processes == 0 || part.has_share) && share;
    part.share += share.value_or(0);
    ++part.processes;
  }
  const auto each = [&](std::string_view name, auto&& value) {
    for (const Values& one : devices)
      for (const auto& [labels, part] : jobs[one.device->index])
        if (const std::optional<double> known = value(part))
          out.sample(name, labels_of(*one.device, frame, Dialect::kBerth) + "," + labels, *known);
  };
  out.family("berth_job_memory_bytes", "bytes", "gauge", "Memory of a job on a device.");
  each("berth_job_memory_bytes", [](const Part& part) {
    return part.has_memory ? std::optional(part.memory_bytes) : std::nullopt;
  });
  out.family("berth_job_utilization_ratio", "ratio", "gauge", "Time share of a job on a device.");
  each("berth_job_utilization_ratio", [](const Part& part) {
    return part.has_share ? std::optional(part.share * 0.01) : std::nullopt;
  });
}

/// Adds one series for all processes with the same user, job and program. Series per pid would grow
/// without limit.
void add_processes(Writer& out, const Frame& frame, std::size_t most) {
  struct Group {
    double memory = 0, share = 0;
    bool has_share = false;
  };
  std::map<int, std::map<std::string, Group>> groups;
  for (const model::DeviceProcess& process : frame.snapshot.processes) {
    if (!process.memory_bytes) continue;
    Labels labels;
    labels.add("user", process.user.empty() ? "unknown" : process.user)
        .add("job_id", process.job ? std::to_string(*process.job) : "")
        .add("program", program_of(process.command))
        .add("pod", process.pod);
    Group& group = groups[process.device][labels.text()];
    group.memory += static_cast<double>(*process.memory_bytes);
    const std::optional<double> share = time_share(process);
    group.has_share = group.has_share || share;
    group.share += share.value_or(0);
  }
  struct Row {
    std::string labels;
    Group group;
  };
  std::vector<Row> rows;
  for (const Device& device : frame.snapshot.devices) {
    if (!is_exported(device, Dialect::kBerth)) continue;
    std::vector<Row> own;
    for (const auto& [labels, group] : groups[device.index])
      own.push_back({labels_of(device, frame, Dialect::kBerth) + "," + labels, group});
    std::stable_sort(own.begin(), own.end(),
                     [](const Row& a, const Row& b) { return a.group.memory > b.group.memory; });
    own.resize(std::min(own.size(), most));
    rows.insert(rows.end(), own.begin(), own.end());
  }
  out.family("berth_process_memory_bytes", "bytes", "gauge",
             "Device memory, by user, job and program; the largest of each device.");
  for (const Row& row : rows)
    out.sample("berth_process_memory_bytes", row.labels, row.group.memory);
  out.family("berth_process_utilization_ratio", "ratio", "gauge",
             "Time share, by user, job and program.");
  for (const Row& row : rows)
    if (row.group.has_share)
      out.sample("berth_process_utilization_ratio", row.labels, row.group.share * 0.01);
}

/// Adds the counters of Xids. They exist with 0 before the first Xid, because increase() ignores
/// the first value of a series. A gauge has the time of the last event.
void add_xids(Writer& out, const Frame& frame, const std::vector<Values>& devices,
              const MetricsOptions& options) {
  if (!frame.xid_totals) return;
  const auto severity_of = [&](int code) {
    return options.severity_of_xid ? options.severity_of_xid(code) : std::string("warning");
  };
  const bool is_own = options.dialect == Dialect::kBerth;
  const std::string prefix = is_own ? "berth_device_" : "nvidia_smi_";
  const auto each = [&](auto&& visit) {
    for (const Values& one : devices)
      if (const auto* codes = frame.xid_totals->of(*one.device);
          codes != nullptr && one.device->vendor == model::Vendor::kNvidia)
        visit(labels_of(*one.device, frame, options.dialect), *codes);
  };
  if (options.dialect == Dialect::kDcgm) {
    out.family("DCGM_FI_DEV_XID_ERRORS", "", "gauge", "Value of the last XID error encountered.");
    each([&](const std::string& labels, const auto& codes) {
      int last = 0;
      std::int64_t at = 0;
      for (const auto& [code, seen] : codes)
        if (seen.last_unix_milliseconds >= at) {
          at = seen.last_unix_milliseconds;
          last = code;
        }
      out.sample("DCGM_FI_DEV_XID_ERRORS", labels, last);
    });
    return;
  }
  const std::string total = prefix + "xid_errors_total";
  out.family(total, "", "counter", "Xids of the driver since the sampler started.");
  each([&](const std::string& labels, const auto& codes) {
    std::map<std::string, std::uint64_t> counts;
    if (is_own) counts = {{"critical", 0}, {"info", 0}, {"warning", 0}};
    for (const auto& [code, seen] : codes)
      counts[is_own ? severity_of(code) : std::to_string(code)] += seen.count();
    for (const auto& [key, count] : counts)
      out.sample(total, labels + (is_own ? ",severity=" : ",xid=") + label_value(key),
                 static_cast<double>(count));
  });
  const std::string last = prefix + "xid_last_timestamp_seconds";
  out.family(last, "seconds", "gauge", "When the driver last reported this Xid.");
  each([&](const std::string& labels, const auto& codes) {
    for (const auto& [code, seen] : codes)
      out.sample(last,
                 labels + ",xid=" + label_value(std::to_string(code)) +
                     (is_own ? ",severity=" + label_value(severity_of(code)) : ""),
                 static_cast<double>(seen.last_unix_milliseconds) / 1000);
  });
}

void add_self(Writer& out, const Frame& frame, const MetricsOptions& options) {
  const auto one = [&](std::string_view name, std::string_view unit, std::string_view type,
                       std::string_view help, double value) {
    out.family(name, unit, type, help);
    out.sample(name, "", value);
  };
  out.family("berth_build_info", "", "gauge", "The version of Berth.");
  out.sample("berth_build_info", Labels().add("version", options.version).text(), 1);
  const model::Driver& driver = frame.snapshot.driver;
  out.family("berth_driver_info", "", "gauge", "The NVIDIA driver.");
  out.sample("berth_driver_info",
             Labels()
                 .add("state", driver.state)
                 .add("version", driver.version)
                 .add("cuda_version", driver.cuda_version)
                 .text(),
             1);
  one("berth_sampler_frames_total", "", "counter", "Frames that the sampler made.",
      static_cast<double>(frame.number));
  one("berth_sampler_last_frame_timestamp_seconds", "seconds", "gauge",
      "When the newest frame was made.",
      static_cast<double>(frame.snapshot.unix_milliseconds) / 1000);
  one("berth_sampler_interval_seconds", "seconds", "gauge",
      "Time between two frames; longer than asked for if they cost more than the budget.",
      frame.cost.interval_seconds);
  one("berth_sampler_cpu_seconds_total", "seconds", "counter", "CPU time of the sampler.",
      frame.cost.cpu_seconds);
  one("berth_sampler_driver_seconds_total", "seconds", "counter",
      "Elapsed time inside drivers, all devices together.", frame.cost.driver_seconds);
}

void add_queue(Writer& out, const QueueNumbers& queue) {
  out.family("berth_jobs", "", "gauge", "Jobs of the broker by state.");
  for (const auto& [state, count] : queue.jobs)
    out.sample("berth_jobs", Labels().add("state", state).text(), static_cast<double>(count));
  out.family("berth_jobs_longest_wait_seconds", "seconds", "gauge",
             "How long the job that has waited longest has waited; 0 where none waits.");
  out.sample("berth_jobs_longest_wait_seconds", "", queue.longest_wait_seconds);
  out.family("berth_job_ranks_hang", "", "gauge",
             "1: `berth run --ranks` finds that the ranks of the job wait for each other.");
  for (const auto& [job, user] : queue.hanging)
    out.sample("berth_job_ranks_hang",
               Labels().add("job_id", std::to_string(job)).add("user", user).text(), 1);
}

/// Adds the MIG partitions. In dcgm-exporter, their memory has the same metric names as that of
/// devices, and two more labels.
std::vector<Values> with_partitions(const std::vector<Values>& devices,
                                    const std::vector<DevicePod>& pods) {
  std::vector<Values> rows;
  for (const Values& one : devices) {
    rows.push_back(one);
    rows.back().labels = pod_labels(pods, one.device->uuid);
    for (const model::Partition& partition : one.device->partitions) {
      Values part;
      part.device = one.device;
      part.labels = "," +
                    Labels()
                        .add("GPU_I_PROFILE", profile_of(partition))
                        .add("GPU_I_ID", number_or_empty(partition.gpu_instance))
                        .text() +
                    pod_labels(pods, partition.uuid);
      const auto& total = partition.memory_total_bytes;
      const auto& used = partition.memory_used_bytes;
      if (!partition.gpu_instance) continue;
      if (total) part.by_name.emplace("memory_total_bytes", static_cast<double>(*total));
      if (used) part.by_name.emplace("memory_used_bytes", static_cast<double>(*used));
      if (total && used && *total >= *used)
        part.by_name.emplace("memory_free_bytes", static_cast<double>(*total - *used));
      rows.push_back(std::move(part));
    }
  }
  return rows;
}

}  // namespace

std::optional<Dialect> dialect_named(std::string_view name) {
  if (name == "berth") return Dialect::kBerth;
  if (name == "dcgm") return Dialect::kDcgm;
  if (name == "nvidia_smi") return Dialect::kNvidiaSmi;
  return std::nullopt;
}

Exposition exposition_for(std::string_view accept) {
  double text = 0, open = 0;
  for (const std::string_view part : split(accept, ',')) {
    const auto words = split(part, ';');
    double quality = 1;
    for (const std::string_view word : words)
      if (const auto trimmed = trim(word); trimmed.starts_with("q="))
        quality = std::strtod(std::string(trimmed.substr(2)).c_str(), nullptr);
    const auto type = trim(words.front());
    if (type == "application/openmetrics-text") open = std::max(open, quality);
    if (type == "text/plain" || type == "*/*") text = std::max(text, quality);
  }
  return open > 0 && open >= text ? Exposition::kOpenMetrics : Exposition::kText;
}

const char* content_type(Exposition exposition) {
  return exposition == Exposition::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

std::string render_metrics(const Frame& frame, const MetricsOptions& options) {
  std::vector<Values> devices;
  for (const Device& device : frame.snapshot.devices)
    if (is_exported(device, options.dialect)) devices.push_back(values_of(device));
  const std::vector<Values> rows =
      options.dialect == Dialect::kDcgm ? with_partitions(devices, options.pods) : devices;
  Writer out(options.exposition);
  add_info(out, frame, devices, options.dialect);
  for (const ReadingMetric& metric : metrics_of(options.dialect)) {
    bool is_first = true;
    for (const Values& one : rows) {
      const auto value = one.by_name.find(metric.reading);
      if (value == one.by_name.end()) continue;
      if (std::exchange(is_first, false))
        out.family(metric.name, metric.unit, metric.is_counter ? "counter" : "gauge", metric.help);
      out.sample(metric.name, labels_of(*one.device, frame, options.dialect) + one.labels,
                 value->second * metric.scale);
    }
  }
  add_xids(out, frame, devices, options);
  if (options.dialect == Dialect::kNvidiaSmi) {
    add_nvidia_smi(out, frame, devices);
    if (options.processes > 0) add_compute_apps(out, frame, devices, options.processes);
  }
  if (options.dialect == Dialect::kBerth) {
    add_states(out, frame, devices);
    add_unattributed(out, frame, devices);
    add_partitions(out, frame, devices);
    add_pods(out, frame, devices, options.pods);
    add_users(out, frame, devices);
    add_jobs(out, frame, devices);
    if (options.processes > 0) add_processes(out, frame, options.processes);
    if (options.queue) add_queue(out, *options.queue);
    add_self(out, frame, options);
  }
  return out.finish();
}

}  // namespace berth::watch
