#include "policy/visible.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/text.hpp"
#include "base/text_parts.hpp"

namespace berth::policy {
namespace {

using model::Device;
using model::Vendor;

constexpr std::size_t kMostTokens = 1024;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// Returns the number at the start of the token: 1 for "1gpu", as from strtoul(). nullopt if the
/// token does not start with a digit.
std::optional<std::size_t> leading_number(std::string_view token) {
  std::size_t number = 0;
  const auto [end, problem] = std::from_chars(token.data(), token.data() + token.size(), number);
  if (problem != std::errc() || end == token.data()) return std::nullopt;
  return number;
}

std::vector<std::string_view> tokens_of(std::string_view value) {
  if (value.empty()) return {};
  auto tokens = split(value, ',');
  if (tokens.size() > kMostTokens) tokens.resize(kMostTokens);
  return tokens;
}

const model::Partition* first_partition(const Device& device) {
  const auto first = std::min_element(
      device.partitions.begin(), device.partitions.end(), [](const auto& a, const auto& b) {
        return std::tie(a.index, a.uuid) < std::tie(b.index, b.uuid);
      });
  return first == device.partitions.end() ? nullptr : &*first;
}

/// Returns the whole device. For a GPU with MIG enabled, returns its first partition, because CUDA
/// shows only that one.
Unit whole(const Device& device) {
  const bool mig = device.mig_enabled.value_or(false);
  const model::Partition* part = mig ? first_partition(device) : nullptr;
  return {device.index, part == nullptr ? "" : part->uuid};
}

/// Returns the device or partition whose uuid starts with the token. nullopt if there is none, or
/// more than one.
std::optional<Unit> by_uuid(const std::vector<const Device*>& devices, std::string_view token) {
  const std::string prefix = lower(token);
  std::vector<Unit> found;
  for (const Device* device : devices) {
    if (!device->uuid.empty() && lower(device->uuid).rfind(prefix, 0) == 0)
      found.push_back(whole(*device));
    for (const model::Partition& part : device->partitions)
      if (!part.uuid.empty() && lower(part.uuid).rfind(prefix, 0) == 0)
        found.push_back({device->index, part.uuid});
    // Drivers before R470 call a partition MIG-GPU-<uuid>/<gpu instance>/<compute instance>.
    for (const model::Partition& part : device->partitions)
      if (part.gpu_instance && part.compute_instance &&
          prefix == fmt::format("mig-{}/{}/{}", lower(device->uuid), *part.gpu_instance,
                                *part.compute_instance))
        found.push_back({device->index, part.uuid});
  }
  if (found.size() != 1) return std::nullopt;
  return found.front();
}

bool names_uuid(std::string_view token) {
  return token.substr(0, 4) == "GPU-" || token.substr(0, 4) == "MIG-" ||
         token.substr(0, 4) == "gpu-";
}

struct Reading {
  std::vector<Unit> units;
  bool used_index = false;
  std::string ignored;  // the token that ended the list; "" if all tokens were read
};

/// Reads a list by the rules of CUDA, HIP and ROCr: the list ends before the first token that names
/// no device. `repeated_is_none`: if a device is named twice, CUDA shows no device (seen in
/// PyTorch's torch/cuda/__init__.py). In ROCr, the list ends at the repeated device.
Reading read_list(const std::vector<const Device*>& devices, std::string_view value,
                  bool repeated_is_none) {
  Reading reading;
  for (const std::string_view token : tokens_of(value)) {
    std::optional<Unit> unit;
    if (names_uuid(token)) {
      unit = by_uuid(devices, token);
    } else if (const auto number = leading_number(token)) {
      reading.used_index = true;
      if (*number < devices.size()) unit = whole(*devices[*number]);
    }
    if (!unit) {
      reading.ignored = token.empty() ? "," : std::string(token);
      break;
    }
    if (std::find(reading.units.begin(), reading.units.end(), *unit) != reading.units.end()) {
      if (repeated_is_none) reading.units.clear();
      reading.ignored = std::string(token);
      break;
    }
    reading.units.push_back(*unit);
  }
  // If the machine has no device, report that instead of the ignored token.
  if (devices.empty()) reading.ignored.clear();
  return reading;
}

bool means_none(std::string_view value) {
  return value.empty() || value.substr(0, 2) == "-1" || value == "NoDevFiles" || value == "none" ||
         value == "void";
}

void take(Visible& visible, const char* name, std::string_view value, const Reading& reading) {
  visible.restricted = true;
  visible.hides_all = visible.hides_all && means_none(value);
  if (!visible.variables.empty()) visible.variables += ' ';
  visible.variables += std::string(name) + "=" + printable(value.substr(0, 200));
  for (const Unit& unit : reading.units)
    if (std::find(visible.units.begin(), visible.units.end(), unit) == visible.units.end())
      visible.units.push_back(unit);
  if (!reading.ignored.empty() && !means_none(value) && reading.ignored.substr(0, 1) != "-")
    visible.notes.push_back(
        text("{}: '{}' and later entries are ignored, because it names no device here, or names "
             "one twice",
             name, printable(reading.ignored.substr(0, 64))));
}

bool several_models(const std::vector<const Device*>& devices) {
  return std::any_of(devices.begin(), devices.end(),
                     [&](const Device* d) { return d->name != devices.front()->name; });
}

void read_cuda(Visible& visible, const model::Request& request, const model::Snapshot& snapshot) {
  const std::string& value = *request.inherited_cuda;
  const auto devices = devices_of(snapshot, Vendor::kNvidia);
  const Reading reading = means_none(value) ? Reading{} : read_list(devices, value, true);
  take(visible, "CUDA_VISIBLE_DEVICES", value, reading);
  // Without CUDA_DEVICE_ORDER, CUDA gives the lowest numbers to the fastest devices, and numbers
  // equally fast devices in bus order.
  if (reading.used_index && request.inherited_cuda_order.value_or("") != "PCI_BUS_ID" &&
      several_models(devices))
    visible.notes.push_back(text(
        "Berth reads CUDA_VISIBLE_DEVICES={} in bus order, as nvidia-smi does. The GPUs here "
        "differ in model: without CUDA_DEVICE_ORDER=PCI_BUS_ID, CUDA numbers the fastest one first",
        printable(value.substr(0, 200))));
}

std::vector<const Device*> pointers(const std::vector<const Device*>& devices,
                                    const std::vector<Unit>& units) {
  std::vector<const Device*> out;
  for (const Unit& unit : units)
    for (const Device* device : devices)
      if (device->index == unit.device) out.push_back(device);
  return out;
}

/// ROCr filters the machine's GPUs, and HIP numbers the remaining ones. If HIP's variable is unset,
/// HIP uses CUDA_VISIBLE_DEVICES. Slurm sets all of these variables to the same numbers, and means
/// the same devices. Then do not apply HIP's numbers to the devices that ROCr has selected.
void read_amd(Visible& visible, const model::Request& request, const model::Snapshot& snapshot) {
  auto devices = devices_of(snapshot, Vendor::kAmd);
  const bool alias = !request.inherited_hip && request.inherited_cuda && !devices.empty() &&
                     devices_of(snapshot, Vendor::kNvidia).empty();
  const auto& hip = alias ? request.inherited_cuda : request.inherited_hip;
  const char* hip_name = alias ? "CUDA_VISIBLE_DEVICES" : "HIP_VISIBLE_DEVICES";
  const auto& rocr = request.inherited_rocr;
  const bool both = hip && rocr && *hip != *rocr;
  if (rocr) {
    const Reading reading = means_none(*rocr) ? Reading{} : read_list(devices, *rocr, false);
    if (!both) return take(visible, "ROCR_VISIBLE_DEVICES", *rocr, reading);
    take(visible, "ROCR_VISIBLE_DEVICES", *rocr, Reading{{}, false, reading.ignored});
    devices = pointers(devices, reading.units);
  }
  if (hip)
    take(visible, hip_name, *hip, means_none(*hip) ? Reading{} : read_list(devices, *hip, true));
}

/// Reads ZE_AFFINITY_MASK, for example "0,1.0". The part after a dot is a tile of the device.
/// Numbers that no device has are ignored (Level Zero specification, affinity mask).
void read_intel(Visible& visible, const std::string& value, const model::Snapshot& snapshot) {
  // Level Zero treats an empty value and "default" like an unset variable.
  if (value.empty() || value == "default") return;
  const auto devices = devices_of(snapshot, Vendor::kIntel);
  Reading reading;
  for (const std::string_view token : tokens_of(value)) {
    const auto number = leading_number(token);
    if (number && *number < devices.size()) reading.units.push_back({devices[*number]->index, ""});
  }
  take(visible, "ZE_AFFINITY_MASK", value, reading);
}

}  // namespace

bool Visible::allows(int device, const std::string& partition) const {
  if (!restricted) return true;
  return std::any_of(units.begin(), units.end(), [&](const Unit& unit) {
    return unit.device == device &&
           (unit.partition_uuid == partition || unit.partition_uuid.empty());
  });
}

std::vector<const Device*> devices_of(const model::Snapshot& snapshot, Vendor vendor) {
  const auto kind = vendor == Vendor::kGoogle ? model::DeviceKind::kTpu : model::DeviceKind::kGpu;
  std::vector<const Device*> devices;
  for (const Device& device : snapshot.devices)
    if (device.vendor == vendor && device.kind == kind && device.managed)
      devices.push_back(&device);
  std::sort(devices.begin(), devices.end(), [](const Device* a, const Device* b) {
    return std::tie(a->pci_address, a->vendor_index, a->index) <
           std::tie(b->pci_address, b->vendor_index, b->index);
  });
  return devices;
}

void inherit_visibility(model::Request& request,
                        const std::map<std::string, std::string>& environment) {
  const auto find = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::optional<std::string>() : found->second;
  };
  for (const model::InheritedVariable& one : model::kInherited)
    request.*one.value = find(one.variable);
}

Visible inherited_visibility(const model::Request& request, const model::Snapshot& snapshot) {
  Visible visible;
  const bool amd_only =
      devices_of(snapshot, Vendor::kNvidia).empty() && !devices_of(snapshot, Vendor::kAmd).empty();
  if (request.inherited_cuda && !amd_only) read_cuda(visible, request, snapshot);
  read_amd(visible, request, snapshot);
  if (request.inherited_ze) read_intel(visible, *request.inherited_ze, snapshot);
  const auto tpus = devices_of(snapshot, Vendor::kGoogle);
  if (request.inherited_tpu && !request.inherited_tpu->empty()) {
    take(visible, "TPU_VISIBLE_CHIPS", *request.inherited_tpu,
         read_list(tpus, *request.inherited_tpu, false));
  } else if (!request.devices.empty()) {
    for (const Device* tpu : tpus) visible.units.push_back(whole(*tpu));
  }
  return visible;
}

}  // namespace berth::policy
