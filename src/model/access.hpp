// Access: which device nodes the processes of a job may open. Plain values.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/device.hpp"

namespace berth::model {

/// What keeps a job from devices that it has no lease on: variables, which a program may unset, or
/// the kernel.
enum class Access : unsigned char { kVariable, kKernel };
[[nodiscard]] std::string_view name(Access access);  // "variable", "kernel"

/// A character device by its numbers.
struct NodeNumber {
  std::uint32_t major = 0, minor = 0;
  auto operator<=>(const NodeNumber&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// Of a list of rules the first that fits decides; a node that none fits may be opened.
struct NodeRule {
  bool allow = false;
  std::uint32_t major = 0;
  std::optional<std::uint32_t> minor = {};  // nullopt: every one
  bool operator==(const NodeRule&) const = default;
};

/// Users whom a list of rules does not concern.
struct Exempt {
  std::vector<std::uint32_t> uids, gids;
};

struct PartitionNodes {
  std::string uuid;
  std::vector<NodeNumber> nodes;  // of the partition alone; its device's are needed beside them
  bool known = true;              // false: it has nodes that could not be found
};

/// The nodes that lead to one device and to no other.
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
    std::optional<std::uint32_t> minor = {};  // nullopt: all of the major
  };
  std::vector<DeviceNodes> devices;
  std::vector<Whole> control;         // what every user of a vendor's GPUs opens beside them
  std::vector<std::uint32_t> majors;  // that have nodes of GPUs and control alone, also of GPUs
                                      // that nobody saw
};

}  // namespace berth::model
