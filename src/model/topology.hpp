// How two devices of a machine are connected, which decides how fast they can exchange data. The
// classes are those of `nvidia-smi topo -m`. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/device.hpp"

namespace berth::model {

/// Sorted from the nearest to the farthest.
enum class Connection : unsigned char {
  kSame,        // the same device
  kNvLink,      // directly connected by NVLinks, or through NVSwitches
  kSwitch,      // below the same PCIe switch
  kSwitches,    // below several PCIe switches, at the same port of a host bridge
  kHostBridge,  // below the same PCIe host bridge
  kNode,        // below different host bridges of the same NUMA node
  kSystem,      // on different NUMA nodes
  kUnknown,
};
/// "same", "nvlink", "pcie_switch", "pcie_switches", "host_bridge", "numa_node", "system",
/// "unknown"
[[nodiscard]] std::string_view name(Connection connection);

struct DeviceLink {
  Connection connection = Connection::kUnknown;
  std::uint32_t nvlinks = 0;  // number of NVLinks between the devices; only for kNvLink
  /// The short form of `nvidia-smi`: "X", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS"; "?" if
  /// unknown.
  [[nodiscard]] std::string code() const;
  friend bool operator==(const DeviceLink&, const DeviceLink&) = default;
  /// A nearer connection is less. If both are the same kind, more NVLinks are less.
  friend std::strong_ordering operator<=>(const DeviceLink& a, const DeviceLink& b) {
    if (a.connection != b.connection) return a.connection <=> b.connection;
    return b.nvlinks <=> a.nvlinks;
  }
};

[[nodiscard]] DeviceLink link_between(const Device& a, const Device& b);
/// The connection as translated words: "NVLink, 4 links", "one PCIe switch".
[[nodiscard]] std::string words(const DeviceLink& link);
/// The slowest connection between any two of the devices; kSame for fewer than two devices.
[[nodiscard]] DeviceLink weakest_link(const std::vector<const Device*>& devices);

/// Divides the devices into groups. Two devices are in one group if they are connected at least as
/// closely as the given class, directly or through others. The result has a number for each device:
/// the position of the first device in its group.
[[nodiscard]] std::vector<std::size_t> groups_at(const std::vector<const Device*>& devices,
                                                 Connection grade);

}  // namespace berth::model
