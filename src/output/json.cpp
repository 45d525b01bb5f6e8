#include "output/json.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/text.hpp"
#include "model/device_use.hpp"
#include "model/topology.hpp"
#include "output/json_writer.hpp"
#include "output/screens.hpp"
#include "output/software.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using model::Reading;
using model::Snapshot;

/// Keys of absent readings, each with the reason.
using Absent = std::vector<std::pair<std::string_view, model::Absence>>;

/// Keys of readings that are a mean over time, each with the number of seconds.
using Windows = std::vector<std::pair<std::string_view, float>>;

/// Writes a reading. If it is absent, writes null and adds the reason to `absent`.
template <typename T>
void add(JsonWriter& json, Absent& absent, std::string_view key, const Reading<T>& reading) {
  json.field(key, reading.value);
  if (!reading) absent.emplace_back(key, reading.why);
}

void add_absent(JsonWriter& json, const Absent& absent) {
  json.key("absent");
  json.open('{');
  for (const auto& [key, why] : absent) json.field(key, model::name(why));
  json.close('}');
}

/// Converts a count to optional. 0 becomes nullopt, because these counts cannot really be 0.
template <typename T>
std::optional<T> known(T count) {
  return count == 0 ? std::nullopt : std::optional<T>(count);
}

void add_host(JsonWriter& json, const model::Host& host) {
  const model::CpuBudget& cpu = host.cpu;
  json.key("host");
  json.open('{');
  json.text_field("hostname", host.hostname);
  json.text_field("kernel", host.kernel);
  json.text_field("cpu_model", host.cpu_model);
  json.field("cores_total", known(cpu.cores_total));
  json.field("cores_affinity", known(cpu.cores_affinity));
  json.field("cores_quota", cpu.quota_cores);
  json.field("cores_usable", cpu.cores_usable);
  json.text_field("affinity", cpu.affinity);
  json.field("numa_nodes", host.numa_nodes);
  json.field("memory_total_bytes", known(cpu.memory_total_bytes));
  json.field("memory_limit_bytes", cpu.memory_limit_bytes);
  json.field("memory_available_bytes", cpu.memory_available_bytes);
  json.text_field("container", host.container);
  json.field("wsl", host.wsl);
  json.field("simulated", host.simulated);
  json.close('}');
}

void add_driver(JsonWriter& json, const model::Driver& driver) {
  json.key("driver");
  json.open('{');
  json.field("state", driver.state);
  json.text_field("version", driver.version);
  json.text_field("cuda_version", driver.cuda_version);
  json.text_field("error_id", driver.error_id);
  json.text_field("message", driver.message);
  json.text_field("hint", driver.hint);
  json.close('}');
}

void add_partition(JsonWriter& json, const model::Partition& part) {
  Absent absent;
  json.field("index", part.index);
  json.text_field("name", part.name);
  json.text_field("uuid", part.uuid);
  json.field("gpu_instance", part.gpu_instance);
  json.field("compute_instance", part.compute_instance);
  add(json, absent, "memory_total_bytes", part.memory_total_bytes);
  add(json, absent, "memory_used_bytes", part.memory_used_bytes);
  add(json, absent, "utilization_percent", part.utilization_percent);
  add_absent(json, absent);
}

std::vector<std::string> known_users(const std::map<int, Use>& uses, int device) {
  const auto use = uses.find(device);
  if (use == uses.end()) return {};
  std::vector<std::string> users = use->second.users;
  std::erase(users, "");
  return users;
}

/// Writes the users of a device. Writes null if the list is empty but some processes may be
/// missing, because this does not mean that the device is unused.
void add_users(JsonWriter& json, const model::Device& device, const std::map<int, Use>& uses) {
  const auto users = known_users(uses, device.index);
  if (users.empty() && users_unknown(device)) {
    json.key("users");
    json.value(nullptr);
  } else {
    json.field("users", users);
  }
}

std::string_view absence_or_nothing(const std::optional<model::Absence>& why) {
  return why ? model::name(*why) : std::string_view();
}

void add_identity(JsonWriter& json, const model::Device& device) {
  json.field("index", device.index);
  json.field("vendor_index", device.vendor_index);
  json.field("kind", model::name(device.kind));
  json.field("vendor", model::name(device.vendor));
  json.text_field("vendor_name", device.vendor_name);
  json.text_field("name", device.name);
  json.text_field("uuid", device.uuid);
  json.text_field("pci_address", device.pci_address);
  json.text_field("pci_path", device.pci_path);
  json.text_field("pci_id", device.pci_id ? fmt::format("{:04x}:{:04x}", *device.pci_id >> 16U,
                                                        *device.pci_id & 0xFFFFU)
                                          : "");
  json.text_field("kernel_driver", device.kernel_driver);
  json.field("numa_node", device.numa_node);
  json.text_field("local_cpus", device.local_cpus);
  json.field("minor_number", device.minor_number);
  json.text_field("architecture", device.architecture);
  json.text_field("compute_capability", device.compute_capability);
  json.text_field("compute_mode", device.compute_mode);
  json.field("persistence_mode", device.persistence_mode);
  json.field("mig_enabled", device.mig_enabled);
  json.field("memory_unified", device.memory_unified);
  json.field("managed", device.managed || model::out_of_reach(device));
}

void add_leases(JsonWriter& json, const model::Device& device, const Snapshot& snapshot) {
  json.key("leases");
  if (!snapshot.leases) {
    json.value(nullptr);
    return;
  }
  json.open('[');
  for (const model::Holding& one : leases_of(device, snapshot)) {
    json.open('{');
    json.key("job");
    one.job == 0 ? json.value(nullptr) : json.value(one.job);
    json.text_field("user", one.job == 0 ? "" : one.user);
    json.field("unit", one.unit);
    json.key("memory_bytes");
    one.memory_bytes == 0 ? json.value(nullptr) : json.value(one.memory_bytes);
    json.key("share_permille");
    one.share_permille == 0 ? json.value(nullptr) : json.value(one.share_permille);
    json.field("guard_memory_bytes", one.guard_memory_bytes);
    json.field("guard_spilled_bytes", one.guard_spilled_bytes);
    json.field("guard_device_seconds", one.guard_device_seconds);
    json.close('}');
  }
  json.close(']');
}

void add_device(JsonWriter& json, const model::Device& device, const Snapshot& snapshot,
                const std::map<int, Use>& uses) {
  add_identity(json, device);
  json.field("health", model::name(device.health));
  json.field("health_reasons", device.health_reasons);
  json.field("throttle_reasons", device.throttle_reasons);
  add_users(json, device, uses);
  const auto use = uses.find(device.index);
  json.key("process_count");
  if (users_unknown(device))
    json.value(nullptr);
  else
    json.value(use == uses.end() ? 0 : use->second.processes);
  json.text_field("processes_unknown", absence_or_nothing(device.processes_unknown));
  add_leases(json, device, snapshot);
  Absent absent;
  Windows windows;
  model::for_each_reading(device.readings, [&](std::string_view key, const auto& reading) {
    add(json, absent, key, reading);
    if (reading && reading.window_seconds >= 0) windows.emplace_back(key, reading.window_seconds);
  });
  json.key("windows");
  json.open('{');
  // Round to hundredths. Otherwise a stream of changes would contain tiny differences each second.
  for (const auto& [key, seconds] : windows) json.field(key, std::round(seconds * 100.0) / 100);
  json.close('}');
  json.field("age_seconds", device.age_seconds);
  json.text_field("slow_readings_time", device.slow_unix_milliseconds == 0
                                            ? ""
                                            : show_time(device.slow_unix_milliseconds));
  add_absent(json, absent);
  json.text_field("partitions_unknown", absence_or_nothing(device.partitions_unknown));
  json.rows("partitions", device.partitions,
            [&](const model::Partition& part) { add_partition(json, part); });
  json.rows("nvlink_peers", device.nvlink_peers, [&](const model::NvLinkPeer& peer) {
    json.text_field("pci_address", peer.pci_address);
    json.field("links", peer.links);
  });
  json.text_field("note", device.note);
}

void add_kinds(JsonWriter& json, const model::UseKind& kind) {
  json.key("kind");
  json.open('[');
  if (kind.compute) json.value("compute");
  if (kind.graphics) json.value("graphics");
  if (kind.mps) json.value("mps");
  json.close(']');
}

std::string_view uuid_of(const Snapshot& snapshot, int device) {
  const model::Device* found = find_device(snapshot, device);
  return found == nullptr ? std::string_view() : std::string_view(found->uuid);
}

void add_process(JsonWriter& json, const Snapshot& snapshot, const model::DeviceProcess& process,
                 bool is_frame) {
  json.field("device", process.device);
  json.text_field("device_uuid", uuid_of(snapshot, process.device));
  json.text_field("partition_uuid", process.partition_uuid);
  json.field("pid", process.pid);
  json.field("host_pid", process.host_pid);
  if (is_frame) json.field("parent", process.parent);
  json.text_field("user", process.user);
  json.field("uid", process.uid);
  add_kinds(json, process.kind);
  Absent absent;
  add(json, absent, "memory_bytes", process.memory_bytes);
  add(json, absent, "sm_percent", process.sm_percent);
  add(json, absent, "encoder_percent", process.encoder_percent);
  add(json, absent, "decoder_percent", process.decoder_percent);
  add(json, absent, "cpu_percent", process.cpu_percent);
  add(json, absent, "rss_bytes", process.rss_bytes);
  add(json, absent, "age_seconds", process.age_seconds);
  json.text_field("state", process.state);
  json.text_field("command", process.command);
  json.text_field("container", process.container);
  json.text_field("unit", process.unit);
  json.text_field("pod", process.pod);
  json.field("job", process.job);
  if (!is_frame) json.field("guard_memory_bytes", process.guard_memory_bytes);
  if (!is_frame) json.field("guard_spilled_bytes", process.guard_spilled_bytes);
  if (!is_frame) json.field("guard_device_seconds", process.guard_device_seconds);
  if (is_frame) json.field("guard_percent", process.guard_percent);
  add_absent(json, absent);
}

void add_unattributed(JsonWriter& json, const Snapshot& snapshot,
                      const model::Unattributed& memory) {
  json.field("device", memory.device);
  json.text_field("device_uuid", uuid_of(snapshot, memory.device));
  json.field("memory_bytes", memory.memory_bytes);
  json.field("cause", memory.cause);
  json.rows("holders", memory.holders, [&](const model::Holder& holder) {
    json.field("pid", holder.pid);
    json.text_field("user", holder.user);
    json.text_field("command", holder.command);
    json.text_field("state", holder.state);
  });
}

void begin(JsonWriter& json, const Snapshot& snapshot) {
  json.open('{');
  json.field("schema", 1);
  json.text_field("time", show_time(snapshot.unix_milliseconds));
}

void add_machine(JsonWriter& json, const Snapshot& snapshot) {
  add_host(json, snapshot.host);
  add_driver(json, snapshot.driver);
  const auto uses = uses_of(snapshot);
  json.rows("devices", snapshot.devices,
            [&](const model::Device& device) { add_device(json, device, snapshot, uses); });
  json.field("notes", snapshot.notes);
}

void add_links(JsonWriter& json, const Snapshot& snapshot) {
  json.key("links");
  json.open('[');
  for (const model::Device& one : snapshot.devices)
    for (const model::Device& other : snapshot.devices) {
      if (one.kind != model::DeviceKind::kGpu || other.kind != one.kind ||
          one.pci_address.empty() || other.pci_address.empty() || one.index >= other.index)
        continue;
      const model::DeviceLink link = model::link_between(one, other);
      json.open('{');
      json.field("devices", std::vector<int>{one.index, other.index});
      json.field("connection", model::name(link.connection));
      json.field("nvlinks", link.nvlinks);
      json.field("code", link.code());
      json.close('}');
    }
  json.close(']');
}

}  // namespace

std::string ls_json(const Snapshot& snapshot, const LsExtras& extras) {
  JsonWriter json;
  begin(json, snapshot);
  add_machine(json, snapshot);
  if (extras.software != nullptr) add_software(json, *extras.software);
  if (extras.topology) add_links(json, snapshot);
  json.close('}');
  return json.finish();
}

std::string machine_json(const Snapshot& snapshot) {
  JsonWriter json;
  begin(json, snapshot);
  add_machine(json, snapshot);
  json.rows("processes", snapshot.processes, [&](const model::DeviceProcess& process) {
    json.field("device", process.device);
    json.text_field("partition_uuid", process.partition_uuid);
    json.field("pid", process.pid);
    json.field("host_pid", process.host_pid);
    json.text_field("user", process.user);
    add_kinds(json, process.kind);
    json.field("memory_bytes", process.memory_bytes.value);
  });
  json.rows("unattributed", snapshot.unattributed, [&](const model::Unattributed& memory) {
    json.field("device", memory.device);
    json.field("memory_bytes", memory.memory_bytes);
    json.field("cause", memory.cause);
  });
  json.close('}');
  return json.finish();
}

std::string ps_json(const Snapshot& snapshot) {
  JsonWriter json;
  begin(json, snapshot);
  json.field("leases_kept", snapshot.leases.has_value());
  json.rows("processes", snapshot.processes, [&](const model::DeviceProcess& process) {
    add_process(json, snapshot, process, false);
  });
  json.rows("unattributed", snapshot.unattributed,
            [&](const model::Unattributed& memory) { add_unattributed(json, snapshot, memory); });
  json.field("notes", ps_notes(snapshot));
  json.close('}');
  return json.finish();
}

std::string frame_json(const Snapshot& snapshot, const FrameFacts& facts) {
  JsonWriter json;
  begin(json, snapshot);
  json.field("frame", facts.number);
  add_host(json, snapshot.host);
  add_driver(json, snapshot.driver);
  const auto uses = uses_of(snapshot);
  json.rows("devices", snapshot.devices,
            [&](const model::Device& device) { add_device(json, device, snapshot, uses); });
  const std::size_t shown = std::min(facts.most_processes, snapshot.processes.size());
  json.rows(
      "processes", std::span(snapshot.processes).first(shown),
      [&](const model::DeviceProcess& process) { add_process(json, snapshot, process, true); });
  json.field("processes_not_listed", snapshot.processes.size() - shown);
  json.key("sampler");
  json.open('{');
  json.field("cpu_seconds", facts.sampler_cpu_seconds);
  json.field("driver_seconds", facts.sampler_driver_seconds);
  json.close('}');
  json.field("notes", snapshot.notes);
  json.close('}');
  return json.finish();
}

std::string overview_json(const Snapshot& snapshot, const std::vector<NextStep>& next) {
  JsonWriter json;
  begin(json, snapshot);
  add_host(json, snapshot.host);
  add_driver(json, snapshot.driver);
  const auto uses = uses_of(snapshot);
  json.rows("devices", snapshot.devices, [&](const model::Device& device) {
    json.field("index", device.index);
    json.field("kind", model::name(device.kind));
    json.text_field("name", device.name);
    json.text_field("uuid", device.uuid);
    json.field("health", model::name(device.health));
    json.field("state", name(state_of(device, snapshot)));
    add_leases(json, device, snapshot);
    json.field("utilization_percent", device.readings.utilization_percent.value);
    json.field("memory_used_bytes", device.readings.memory_used_bytes.value);
    json.field("memory_total_bytes", device.readings.memory_total_bytes.value);
    add_users(json, device, uses);
  });
  json.rows("users", shares_of(snapshot), [&](const UserShare& share) {
    json.text_field("user", share.user);
    json.field("devices", share.devices);
    json.field("processes", share.processes);
    json.field("memory_bytes", share.memory_bytes);
  });
  json.rows("problems", problems_of(snapshot), [&](const Problem& problem) {
    json.field("device", problem.device);
    json.text_field("id", problem.id);
    json.field("message", problem.message);
    json.text_field("hint", problem.hint);
  });
  json.rows("next", next, [&](const NextStep& step) {
    json.field("command", step.command);
    json.field("why", step.why);
  });
  json.close('}');
  return json.finish();
}

}  // namespace berth::output
