// Parses a device as people name it: by its index, the start of its uuid, or its PCI address. A MIG
// partition is named by its uuid or as DEVICE:PARTITION, as in `berth ls`. Filters, placement and
// the simulator's faults use this. Pure.
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
  int index = 0;  // kIndex: Device::index
  std::optional<std::uint32_t>
      part;          // for kIndex: Partition::index ("0:1"); nullopt: the whole device
  std::string uuid;  // kUuid: lower-case prefix of a device's or partition's uuid
  std::optional<std::uint32_t>
      domain;  // for kPci: the domain; nullopt: not given ("81:00.0"), so any domain matches
  std::uint32_t bus = 0, slot = 0, function = 0;
};

/// Parses one element. A uuid prefix needs at least 4 characters after "GPU-" or "MIG-". Fails with
/// kInvalidArgument (E0415).
[[nodiscard]] Result<DeviceSelector> parse_device_selector(std::string_view given);

/// What a selector selects: a device or one of its partitions.
struct Selected {
  int device = -1;             // Device::index
  std::string partition_uuid;  // "": the whole device
  bool operator==(const Selected&) const = default;
};

/// The device or partition that matches. Fails with kNotFound (E0413: there is none; the hint lists
/// the devices) or kInvalidArgument (E0414: several match, and the message lists them; E0415: not a
/// selector).
[[nodiscard]] Result<Selected> select_device(const std::vector<Device>& devices,
                                             std::string_view given);
/// The devices in the order given, without duplicates. Every element may be a comma-separated list.
/// Fails like select_device(), also for an empty list.
[[nodiscard]] Result<std::vector<Selected>> select_devices(const std::vector<Device>& devices,
                                                           const std::vector<std::string>& lists);
/// The number of a device or partition, for people: "2", "2:1".
[[nodiscard]] std::string unit_name(const Device& device, std::string_view partition_uuid);
/// Like unit_name(), but with kind and model: "GPU 2 (NVIDIA A100)", "GPU 2:1 (MIG 1g.10gb of
/// NVIDIA A100)".
[[nodiscard]] std::string unit_words(const Device& device, std::string_view partition_uuid);
/// The available devices, for hints: "0, 1, 2 (GPU), 3 (CPU)".
[[nodiscard]] std::string list_choices(const std::vector<Device>& devices);

}  // namespace berth::model
