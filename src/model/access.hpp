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

/// What keeps a job from using a device without a lease. kVariable: environment variables, which a
/// program may unset. kKernel: the kernel.
enum class Access : unsigned char { kVariable, kKernel };
[[nodiscard]] std::string_view name(Access access);  // The name in JSON: "variable" or "kernel".

/// The major and minor number of a character device.
struct NodeNumber {
  std::uint32_t major = 0, minor = 0;
  auto operator<=>(const NodeNumber&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// A rule that allows or denies opening device nodes. Of a list, the first rule that matches a node
/// decides. A node that no rule matches may be opened.
struct NodeRule {
  bool allow = false;
  std::uint32_t major = 0;
  std::optional<std::uint32_t> minor = {};  // nullopt means all minor numbers
  bool operator==(const NodeRule&) const = default;
};

/// The users and groups to whom the rules do not apply.
struct Exempt {
  std::vector<std::uint32_t> uids, gids;
};

struct PartitionNodes {
  std::string uuid;
  std::vector<NodeNumber>
      nodes;  // nodes that belong only to this partition; a job also needs the device's nodes
  bool known = true;  // false if some of its nodes could not be found
};

/// The nodes that give access to this device and to no other.
struct DeviceNodes {
  int device = -1;  // the device's number (Device::index)
  Vendor vendor = Vendor::kOther;
  std::vector<NodeNumber> nodes;
  std::vector<PartitionNodes> partitions;
};

/// The nodes of a machine's GPUs.
struct GpuNodes {
  struct Whole {
    Vendor vendor = Vendor::kOther;
    std::uint32_t major = 0;
    std::optional<std::uint32_t> minor = {};  // nullopt means all minor numbers
  };
  std::vector<DeviceNodes> devices;
  std::vector<Whole> control;  // nodes that a program needs for any GPU of this vendor
  // Major numbers that only GPU and control nodes have. They also cover GPUs that were not found.
  std::vector<std::uint32_t> majors;
};

}  // namespace berth::model
