#include "model/topology.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace berth::model {
namespace {

constexpr std::array<std::string_view, 8> kConnectionNames{
    "same",        "nvlink",    "pcie_switch", "pcie_switches",
    "host_bridge", "numa_node", "system",      "unknown"};

std::uint32_t links_to(const Device& device, std::string_view address) {
  for (const NvLinkPeer& peer : device.nvlink_peers)
    if (peer.pci_address == address) return peer.links;
  return 0;
}

/// Each device counts the links that it sees. Only the smaller count of the two can be used by
/// both.
std::uint32_t nvlinks_between(const Device& a, const Device& b) {
  const std::uint32_t direct =
      a.pci_address.empty() || b.pci_address.empty()
          ? 0
          : std::min(links_to(a, b.pci_address), links_to(b, a.pci_address));
  return direct + std::min(links_to(a, ""), links_to(b, ""));
}

/// Compares the PCI paths of two devices. A path consists of the host bridge, one of its ports, and
/// the bridges below the port. Two devices below the same port are connected by a switch, because a
/// port alone has only one device. If each path has one more part (a port of the switch), there is
/// no other switch between the devices. If not, there are several switches.
Connection by_path(std::string_view a, std::string_view b) {
  // number of equal parts, and the position of the first different part
  std::size_t shared = 0, at = 0;
  while (at < std::min(a.size(), b.size())) {
    const std::string_view part = a.substr(at, a.find('/', at) - at);
    if (part != b.substr(at, b.find('/', at) - at)) break;
    ++shared;
    at += part.size() + 1;
  }
  if (shared == 0) return Connection::kUnknown;
  if (shared == 1) return Connection::kHostBridge;
  const auto is_last = [&](std::string_view path) {
    return path.find('/', at) == std::string_view::npos;
  };
  return is_last(a) && is_last(b) ? Connection::kSwitch : Connection::kSwitches;
}

Connection by_node(const Device& a, const Device& b) {
  if (!a.numa_node || !b.numa_node) return Connection::kUnknown;
  return *a.numa_node == *b.numa_node ? Connection::kNode : Connection::kSystem;
}

}  // namespace

std::string_view name(Connection connection) {
  return kConnectionNames.at(static_cast<std::size_t>(connection));
}

std::string DeviceLink::code() const {
  constexpr std::array<std::string_view, 8> kCodes{"X",   "NV",   "PIX", "PXB",
                                                   "PHB", "NODE", "SYS", "?"};
  std::string out(kCodes.at(static_cast<std::size_t>(connection)));
  return connection == Connection::kNvLink ? out + std::to_string(nvlinks) : out;
}

DeviceLink link_between(const Device& a, const Device& b) {
  if (&a == &b || (a.index >= 0 && a.index == b.index)) return {Connection::kSame};
  if (const std::uint32_t links = nvlinks_between(a, b); links > 0)
    return {Connection::kNvLink, links};
  if (!a.pci_path.empty() && !b.pci_path.empty())
    if (const Connection found = by_path(a.pci_path, b.pci_path); found != Connection::kUnknown)
      return {found};
  return {by_node(a, b)};
}

std::string words(const DeviceLink& link) {
  switch (link.connection) {
    case Connection::kNvLink:
      return text_n("NVLink, {} link", "NVLink, {} links", link.nvlinks, link.nvlinks);
    case Connection::kSwitch:
      return text("one PCIe switch");
    case Connection::kSwitches:
      return text("several PCIe switches");
    case Connection::kHostBridge:
      return text("one PCIe host bridge, in the CPU");
    case Connection::kNode:
      return text("different PCIe host bridges of one NUMA node");
    case Connection::kSystem:
      return text("the link between NUMA nodes, the slowest path");
    case Connection::kSame:
      return text("the same device");
    case Connection::kUnknown:
      break;
  }
  return text("not known");
}

DeviceLink weakest_link(const std::vector<const Device*>& devices) {
  DeviceLink weakest{Connection::kSame};
  for (std::size_t i = 0; i < devices.size(); ++i)
    for (std::size_t k = i + 1; k < devices.size(); ++k)
      weakest = std::max(weakest, link_between(*devices[i], *devices[k]));
  return weakest;
}

std::vector<std::size_t> groups_at(const std::vector<const Device*>& devices, Connection grade) {
  std::vector<std::size_t> group(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    group[i] = i;
    for (std::size_t k = 0; k < i; ++k)
      if (group[k] != group[i] && link_between(*devices[k], *devices[i]).connection <= grade) {
        const auto [first, second] = std::minmax(group[k], group[i]);
        std::replace(group.begin(), group.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                     std::size_t{second}, std::size_t{first});
      }
  }
  return group;
}

}  // namespace berth::model
