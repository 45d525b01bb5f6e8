#include "client/machine.hpp"

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"

namespace berth::client {
namespace {

using Json = nlohmann::json;
using model::Device;

/// A value that is null or missing leaves `into` unchanged.
template <typename T>
void take(const Json& from, const char* key, T& into) {
  if (const auto found = from.find(key); found != from.end() && !found->is_null())
    read_json(*found, into);
}
template <typename T>
void take(const Json& from, const char* key, std::optional<T>& into) {
  if (const auto found = from.find(key); found != from.end() && !found->is_null())
    into = json_value<T>(*found);
}
template <typename T>
void take(const Json& from, const char* key, model::Reading<T>& into) {
  take(from, key, into.value);
}

/// Reads an enumeration value by name; an unknown name leaves `into` unchanged.
template <typename Enum>
void take_name(const Json& from, const char* key, Enum last, Enum& into) {
  std::string word;
  take(from, key, word);
  for (int value = 0; value <= static_cast<int>(last); ++value)
    if (model::name(static_cast<Enum>(value)) == word) into = static_cast<Enum>(value);
}

/// Reads the reason why a value is absent. An unknown reason of a newer broker also means that the
/// value is absent.
void take_absence(const Json& from, const char* key, std::optional<model::Absence>& into) {
  if (const auto found = from.find(key); found == from.end() || found->is_null()) return;
  into = model::Absence::kFailed;
  take_name(from, key, model::Absence::kNotSeen, *into);
}

const Json& rows(const Json& from, const char* key) {
  static const Json none = Json::array();
  const auto found = from.find(key);
  return found != from.end() && found->is_array() ? *found : none;
}

model::Partition partition_of(const Json& json) {
  model::Partition part;
  take(json, "index", part.index);
  take(json, "name", part.name);
  take(json, "uuid", part.uuid);
  take(json, "gpu_instance", part.gpu_instance);
  take(json, "compute_instance", part.compute_instance);
  take(json, "memory_total_bytes", part.memory_total_bytes);
  take(json, "memory_used_bytes", part.memory_used_bytes);
  return part;
}

Device device_of(const Json& json) {
  static_cast<void>(json.get_ref<const Json::object_t&>());
  Device device;
  take(json, "index", device.index);
  take(json, "vendor_index", device.vendor_index);
  take_name(json, "kind", model::DeviceKind::kCpu, device.kind);
  take_name(json, "vendor", model::Vendor::kOther, device.vendor);
  take(json, "vendor_name", device.vendor_name);
  take(json, "name", device.name);
  take(json, "uuid", device.uuid);
  take(json, "pci_address", device.pci_address);
  take(json, "pci_path", device.pci_path);
  take(json, "kernel_driver", device.kernel_driver);
  take(json, "numa_node", device.numa_node);
  take(json, "local_cpus", device.local_cpus);
  take(json, "minor_number", device.minor_number);
  take(json, "architecture", device.architecture);
  take(json, "compute_capability", device.compute_capability);
  take(json, "compute_mode", device.compute_mode);
  take(json, "persistence_mode", device.persistence_mode);
  take(json, "mig_enabled", device.mig_enabled);
  take(json, "memory_unified", device.memory_unified);
  take(json, "managed", device.managed);
  take_name(json, "health", model::Health::kNotChecked, device.health);
  take(json, "health_reasons", device.health_reasons);
  take(json, "note", device.note);
  take_absence(json, "processes_unknown", device.processes_unknown);
  take_absence(json, "partitions_unknown", device.partitions_unknown);
  model::for_each_reading(device.readings, [&](std::string_view key, auto& reading) {
    take(json, std::string(key).c_str(), reading);
  });
  for (const Json& one : rows(json, "nvlink_peers")) {
    model::NvLinkPeer& peer = device.nvlink_peers.emplace_back();
    take(one, "pci_address", peer.pci_address);
    take(one, "links", peer.links);
  }
  for (const Json& one : rows(json, "partitions")) device.partitions.push_back(partition_of(one));
  return device;
}

model::DeviceProcess process_of(const Json& json) {
  model::DeviceProcess process;
  take(json, "device", process.device);
  take(json, "partition_uuid", process.partition_uuid);
  take(json, "pid", process.pid);
  take(json, "host_pid", process.host_pid);
  take(json, "user", process.user);
  take(json, "memory_bytes", process.memory_bytes);
  for (const Json& one : rows(json, "kind")) {
    process.kind.compute |= one == "compute";
    process.kind.graphics |= one == "graphics";
    process.kind.mps |= one == "mps";
  }
  return process;
}

model::Unattributed unattributed_of(const Json& json) {
  model::Unattributed memory;
  take(json, "device", memory.device);
  take(json, "memory_bytes", memory.memory_bytes);
  take(json, "cause", memory.cause);
  return memory;
}

}  // namespace

Result<model::Snapshot> machine_in(const Response& response) try {
  const Json json = Json::parse(response.body);
  model::Snapshot machine;
  for (const Json& one : json.at("devices")) machine.devices.push_back(device_of(one));
  for (const Json& one : rows(json, "processes")) machine.processes.push_back(process_of(one));
  for (const Json& one : rows(json, "unattributed"))
    machine.unattributed.push_back(unattributed_of(one));
  const Json& driver = json.at("driver");
  take(driver, "state", machine.driver.state);
  take(driver, "version", machine.driver.version);
  take(driver, "cuda_version", machine.driver.cuda_version);
  return machine;
} catch (const Json::exception&) {
  return unreadable_answer(response);
}

}  // namespace berth::client
