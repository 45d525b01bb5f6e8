// Parses the name of a device: its number, the start of its uuid, or its PCI address. A MIG
// partition has its uuid or DEVICE:PARTITION, as in `berth ls`. Used by filters, placement and the
// simulator's faults. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/device.hpp"

namespace berth::model {

struct DeviceSelector {
  enum class Kind { kIndex, kUuid, kPci };
  Kind kind = Kind::kIndex;
  int index = 0;  // for kIndex: the device's number (Device::index)
  std::optional<std::uint32_t>
      part;  // for kIndex: the partition's number (1 in "0:1"); nullopt means the whole device
  std::string uuid;  // for kUuid: the start of a device's or partition's uuid, in lower case
  // for kPci: the domain; nullopt if it was not given, as in "81:00.0"; then any domain matches
  std::optional<std::uint32_t> domain;
  std::uint32_t bus = 0, slot = 0, function = 0;
};

/// Parses the name of one device. After "GPU-" or "MIG-", at least 4 characters of the uuid are
/// needed. Fails with kInvalidArgument (E0415).
[[nodiscard]] Result<DeviceSelector> parse_device_selector(std::string_view given);

/// What the user selected: a device, or one of its partitions.
struct Selected {
  int device = -1;             // the device's number (Device::index)
  std::string partition_uuid;  // "" means the whole device
  bool operator==(const Selected&) const = default;
};

/// The device or partition that the text selects. Fails with kNotFound (E0413: there is none; the
/// hint lists the devices) or kInvalidArgument (E0414: several match, and the message lists them;
/// E0415: not the name of a device).
[[nodiscard]] Result<Selected> select_device(const std::vector<Device>& devices,
                                             std::string_view given);
/// The selected devices in the given order, without duplicates. Each text may be a comma-separated
/// list. Fails with the errors of select_device(), also if no device is given.
[[nodiscard]] Result<std::vector<Selected>> select_devices(const std::vector<Device>& devices,
                                                           const std::vector<std::string>& lists);
/// The number of a device or partition for people: "2" or "2:1".
[[nodiscard]] std::string unit_name(const Device& device, std::string_view partition_uuid);
/// Like unit_name(), but with kind and model: "GPU 2 (NVIDIA A100)", "GPU 2:1 (MIG 1g.10gb of
/// NVIDIA A100)".
[[nodiscard]] std::string unit_words(const Device& device, std::string_view partition_uuid);
/// The available devices, for hints: "0, 1, 2 (GPU), 3 (CPU)".
[[nodiscard]] std::string list_choices(const std::vector<Device>& devices);

}  // namespace berth::model
