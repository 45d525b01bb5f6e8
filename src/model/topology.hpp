// How two devices of a machine are connected, which decides how fast they exchange data. The grades
// are those of `nvidia-smi topo -m`. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/device.hpp"

namespace berth::model {

/// From the nearest to the farthest.
enum class Connection : unsigned char {
  kSame,        // the same device
  kNvLink,      // NVLinks, directly or through NVSwitches
  kSwitch,      // one PCIe switch
  kSwitches,    // several PCIe switches, below one port of a host bridge
  kHostBridge,  // one PCIe host bridge
  kNode,        // several host bridges of one NUMA node
  kSystem,      // different NUMA nodes
  kUnknown,
};
/// "same", "nvlink", "pcie_switch", "pcie_switches", "host_bridge", "numa_node", "system",
/// "unknown"
[[nodiscard]] std::string_view name(Connection connection);

struct DeviceLink {
  Connection connection = Connection::kUnknown;
  std::uint32_t nvlinks = 0;  // links between the two; for kNvLink only
  /// `nvidia-smi`'s short form: "X", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS"; "?" if unknown.
  [[nodiscard]] std::string code() const;
  friend bool operator==(const DeviceLink&, const DeviceLink&) = default;
  /// Less is nearer: first the grade, then more NVLinks.
  friend std::strong_ordering operator<=>(const DeviceLink& a, const DeviceLink& b) {
    if (a.connection != b.connection) return a.connection <=> b.connection;
    return b.nvlinks <=> a.nvlinks;
  }
};

[[nodiscard]] DeviceLink link_between(const Device& a, const Device& b);
/// "NVLink, 4 links", "one PCIe switch"; translated.
[[nodiscard]] std::string words(const DeviceLink& link);
/// The weakest link among some devices; kSame for fewer than two.
[[nodiscard]] DeviceLink weakest_link(const std::vector<const Device*>& devices);

/// Divides the devices into groups. Two devices are in the same group if they are connected by
/// links of at most this grade, directly or through other devices. The result has a number for each
/// device: the position of the first device of its group.
[[nodiscard]] std::vector<std::size_t> groups_at(const std::vector<const Device*>& devices,
                                                 Connection grade);

}  // namespace berth::model
