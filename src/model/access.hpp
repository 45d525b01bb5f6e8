// Which device nodes the processes of a job may open. Plain values.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/device.hpp"

namespace berth::model {

/// What keeps a job from using devices without a lease: variables, which a program may unset, or
/// the kernel.
enum class Access : unsigned char { kVariable, kKernel };
[[nodiscard]] std::string_view name(Access access);  // "variable", "kernel"

/// A character device by its numbers.
struct NodeNumber {
  std::uint32_t major = 0, minor = 0;
  auto operator<=>(const NodeNumber&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// A row in a list of rules. The first row that matches a node decides; a node without a match may
/// be opened.
struct NodeRule {
  bool allow = false;
  std::uint32_t major = 0;
  std::optional<std::uint32_t> minor = {};  // nullopt: every minor
  bool operator==(const NodeRule&) const = default;
};

/// Users and groups to whom a list of rules does not apply.
struct Exempt {
  std::vector<std::uint32_t> uids, gids;
};

struct PartitionNodes {
  std::string uuid;
  std::vector<NodeNumber>
      nodes;          // nodes of the partition only; a job also needs the device's nodes
  bool known = true;  // false: some of its nodes could not be found
};

/// The nodes that give access to one device only.
struct DeviceNodes {
  int device = -1;  // Device::index
  Vendor vendor = Vendor::kOther;
  std::vector<NodeNumber> nodes;
  std::vector<PartitionNodes> partitions;
};

/// The nodes of a machine's GPUs.
struct GpuNodes {
  struct Whole {
    Vendor vendor = Vendor::kOther;
    std::uint32_t major = 0;
    std::optional<std::uint32_t> minor = {};  // nullopt: all minor numbers
  };
  std::vector<DeviceNodes> devices;
  std::vector<Whole> control;  // nodes that a program needs for any GPU of this vendor
  // Major numbers that only GPU and control nodes have, also those of GPUs that were not found.
  std::vector<std::uint32_t> majors;
};

}  // namespace berth::model
