#include "policy/access.hpp"

#include <algorithm>
#include <set>

#include "policy/candidates.hpp"

namespace berth::policy {
namespace {

using model::NodeNumber;
using model::NodeRule;

bool contains(const std::vector<std::string>& units, const std::string& unit) {
  return std::find(units.begin(), units.end(), unit) != units.end();
}

/// The device nodes and the vendors of the units that the job has.
struct Had {
  std::set<NodeNumber> nodes;
  std::set<model::Vendor> vendors;
  std::set<std::string> units;
};

void take(Had& had, const model::DeviceNodes& of, const std::string& unit) {
  had.units.insert(unit);
  had.vendors.insert(of.vendor);
  had.nodes.insert(of.nodes.begin(), of.nodes.end());
}

void take_partitions(Had& had, const model::DeviceNodes& of, const model::Device& device,
                     const std::vector<std::string>& units) {
  for (const model::Partition& partition : device.partitions)
    for (const model::PartitionNodes& own : of.partitions) {
      const std::string unit = unit_id(device, &partition);
      if (own.uuid != partition.uuid || !own.known || !contains(units, unit)) continue;
      take(had, of, unit);
      had.nodes.insert(own.nodes.begin(), own.nodes.end());
    }
}

Had had_of(const model::Snapshot& snapshot, const model::GpuNodes& nodes,
           const std::vector<std::string>& units) {
  Had had;
  for (const model::DeviceNodes& of : nodes.devices)
    for (const model::Device& device : snapshot.devices) {
      if (device.index != of.device) continue;
      if (const std::string unit = unit_id(device, nullptr); contains(units, unit))
        take(had, of, unit);
      take_partitions(had, of, device, units);
    }
  return had;
}

}  // namespace

std::optional<std::vector<NodeRule>> node_rules(const model::Snapshot& snapshot,
                                                const model::GpuNodes& nodes,
                                                const std::vector<std::string>& units) {
  const Had had = had_of(snapshot, nodes, units);
  if (had.units.size() != std::set<std::string>(units.begin(), units.end()).size())
    return std::nullopt;
  std::vector<NodeRule> rules;
  for (const NodeNumber& node : had.nodes) rules.push_back({true, node.major, node.minor});
  for (const model::GpuNodes::Whole& one : nodes.control)
    rules.push_back({had.vendors.contains(one.vendor), one.major, one.minor});
  std::set<NodeNumber> others;
  const auto deny = [&](const std::vector<NodeNumber>& some) {
    for (const NodeNumber& node : some)
      if (!had.nodes.contains(node)) others.insert(node);
  };
  for (const model::DeviceNodes& of : nodes.devices) deny(of.nodes);
  for (const NodeNumber& node : others)
    if (std::find(nodes.majors.begin(), nodes.majors.end(), node.major) == nodes.majors.end())
      rules.push_back({false, node.major, node.minor});
  for (const std::uint32_t major : nodes.majors) rules.push_back({false, major});
  return rules;
}

}  // namespace berth::policy
