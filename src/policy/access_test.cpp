#include "policy/access.hpp"

#include <doctest/doctest.h>

#include "policy/machines_for_tests.hpp"

using namespace berth;
using namespace berth::policy;
using model::GpuNodes;
using model::NodeNumber;
using model::NodeRule;
using model::Vendor;

namespace {

/// Whether the rules allow this node.
bool may_open(const std::vector<NodeRule>& rules, NodeNumber node) {
  for (const NodeRule& rule : rules)
    if (rule.major == node.major && rule.minor.value_or(node.minor) == node.minor)
      return rule.allow;
  return true;
}

constexpr NodeNumber kNull{1, 3}, kControl{195, 255}, kModeset{195, 254}, kUvm{511, 0},
    kKfd{234, 0}, kScreen{226, 0};  // kScreen: graphics of a server's management controller

GpuNodes nodes_of(const model::Snapshot& machine) {
  GpuNodes nodes;
  nodes.majors = {195, 237};
  nodes.control = {{Vendor::kNvidia, 195, 255},
                   {Vendor::kNvidia, 195, 254},
                   {Vendor::kNvidia, 511},
                   {Vendor::kAmd, 234}};
  for (const model::Device& device : machine.devices) {
    if (device.kind != model::DeviceKind::kGpu) continue;
    const auto number = static_cast<std::uint32_t>(device.index);
    model::DeviceNodes of{
        device.index, device.vendor, {{226, number + 1}, {226, number + 129}}, {}};
    if (device.vendor == Vendor::kNvidia) of.nodes.push_back({195, number});
    for (const model::Partition& one : device.partitions)
      of.partitions.push_back({one.uuid, {{237, 100 + 2 * one.index}, {237, 101 + 2 * one.index}}});
    nodes.devices.push_back(of);
  }
  return nodes;
}

}  // namespace

TEST_CASE("a job can open only its own GPU, by any of its nodes") {
  const auto machine = machines::nvidia(4);
  const auto rules = node_rules(machine, nodes_of(machine), {machine.devices[2].uuid});
  REQUIRE(rules);
  for (const NodeNumber node : {NodeNumber{195, 2},
                                {226, 3},
                                {226, 131},
                                kControl,
                                kModeset,
                                kUvm,
                                kNull,
                                kScreen,
                                NodeNumber{2, 195}})
    CHECK_MESSAGE(may_open(*rules, node), node.major, ":", node.minor);
  for (const std::uint32_t other : {0U, 1U, 3U})
    for (const NodeNumber node : {NodeNumber{195, other}, {226, other + 1}, {226, other + 129}})
      CHECK_MESSAGE(!may_open(*rules, node), node.major, ":", node.minor);
  CHECK(!may_open(*rules, {195, 9}));    // the job may not open a GPU that did not answer
  CHECK(!may_open(*rules, {237, 100}));  // nor a partition of that GPU
  CHECK(!may_open(*rules, kKfd));
}

TEST_CASE("a job without GPUs can open no GPU node, and all other nodes") {
  const auto machine = machines::machine({machines::gpu(Vendor::kNvidia, "NVIDIA A100", 80),
                                          machines::gpu(Vendor::kAmd, "AMD Instinct MI300X", 192)});
  const auto rules = node_rules(machine, nodes_of(machine), {});
  REQUIRE(rules);
  for (const NodeNumber node : {NodeNumber{195, 0},
                                {195, 1},
                                {226, 1},
                                {226, 2},
                                {226, 129},
                                {226, 130},
                                kControl,
                                kUvm,
                                kKfd})
    CHECK_MESSAGE(!may_open(*rules, node), node.major, ":", node.minor);
  for (const NodeNumber node : {kNull, kScreen, NodeNumber{136, 0}, {5, 0}})
    CHECK_MESSAGE(may_open(*rules, node), node.major, ":", node.minor);
}

TEST_CASE("control nodes are open to jobs with a device of that vendor") {
  const auto machine = machines::machine({machines::gpu(Vendor::kNvidia, "NVIDIA A100", 80),
                                          machines::gpu(Vendor::kAmd, "AMD Instinct MI300X", 192),
                                          machines::gpu(Vendor::kIntel, "Intel Arc", 16)});
  const auto nodes = nodes_of(machine);
  const auto amd = node_rules(machine, nodes, {machine.devices[1].pci_address});
  REQUIRE(amd);
  CHECK(may_open(*amd, kKfd));
  CHECK(may_open(*amd, {226, 130}));
  CHECK(!may_open(*amd, kControl));
  CHECK(!may_open(*amd, {195, 0}));
  CHECK(!may_open(*amd, {226, 131}));
  const auto both =
      node_rules(machine, nodes, {machine.devices[0].uuid, machine.devices[2].pci_address});
  REQUIRE(both);
  CHECK(may_open(*both, kControl));
  CHECK(may_open(*both, {226, 131}));
  CHECK(!may_open(*both, kKfd));
}

TEST_CASE("a job with a MIG instance can open its GPU and only its own instance") {
  const auto machine = machines::machine(
      {machines::with_mig(machines::gpu(Vendor::kNvidia, "NVIDIA A100", 80), {40, 20, 10}, "a"),
       machines::gpu(Vendor::kNvidia, "NVIDIA A100", 80)});
  auto nodes = nodes_of(machine);
  const auto rules = node_rules(machine, nodes, {machine.devices[0].partitions[1].uuid});
  REQUIRE(rules);
  for (const NodeNumber node : {NodeNumber{195, 0}, {237, 102}, {237, 103}, kControl, kUvm})
    CHECK_MESSAGE(may_open(*rules, node), node.major, ":", node.minor);
  for (const NodeNumber node : {NodeNumber{195, 1}, {237, 100}, {237, 101}, {237, 104}, {237, 105}})
    CHECK_MESSAGE(!may_open(*rules, node), node.major, ":", node.minor);
  nodes.devices[0].partitions[1].known = false;
  CHECK(!node_rules(machine, nodes, {machine.devices[0].partitions[1].uuid}));
}

TEST_CASE("a job whose device has no known node is not restricted by the kernel") {
  const auto machine = machines::nvidia(2);
  auto nodes = nodes_of(machine);
  nodes.devices.erase(nodes.devices.begin());
  CHECK(!node_rules(machine, nodes, {machine.devices[0].uuid}));
  CHECK(!node_rules(machine, nodes, {"GPU-of-another-machine"}));
  CHECK(node_rules(machine, nodes, {machine.devices[1].uuid}));
}
