#include <doctest/doctest.h>

#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"

using namespace berth::doctor;
using tests::alter;
using tests::card;
using tests::severity_of;

namespace rdma_test {
namespace {

/// A machine with two H100 and an active InfiniBand adapter, in a job on two machines.
Facts node() {
  Facts facts;
  facts.machine.kernel = std::string("6.8.0-45-generic");
  facts.machine.modules = std::vector<std::string>{"nvidia", "nvidia_uvm", "mlx5_ib"};
  facts.machine.pci = std::vector{card("0000:01:00.0", 0x10de, 0x2330, "nvidia"),
                                  card("0000:02:00.0", 0x10de, 0x2330, "nvidia")};
  alter(facts.machine.pci, [](auto& it) {
    for (PciFunction& one : it) one.class_code = 0x030200;
  });
  facts.nvidia.open_module = false;
  facts.nvidia.module_version = std::string("550.54.15");
  facts.process.environment = Environment{{"SLURM_NNODES", "2"}};
  facts.rdma.ports =
      std::vector{RdmaPort{"mlx5_0", "ACTIVE", false, "/sys/class/infiniband/mlx5_0/ports/1"}};
  facts.rdma.nccl_plugin = std::vector<std::string>{};
  return facts;
}

void alone(Facts& facts) {
  facts.process.environment = Environment{};
}
/// Makes this a virtual machine with this number of RoCE adapters.
void many(Facts& facts, int count) {
  facts.machine.is_virtual = true;
  std::vector<RdmaPort> ports;
  for (int i = 0; i < count; ++i)
    ports.push_back({"mlx5_" + std::to_string(i), "ACTIVE", true, "/sys/…"});
  facts.rdma.ports = std::move(ports);
}
void ethernet(Facts& facts) {
  facts.rdma.ports =
      std::vector{RdmaPort{"mlx5_0", "ACTIVE", true, "/sys/class/infiniband/mlx5_0/ports/1"}};
}

}  // namespace

TEST_CASE("network adapters that do not reach the GPUs' memory are said where they could") {
  const auto peer = [](const Facts& facts) { return severity_of(rdma_rules(), facts, "RT13"); };
  CHECK(peer(node()) == "warning");
  const auto but = [&](auto change) {
    Facts facts = node();
    change(facts);
    return peer(facts);
  };
  CHECK(but(alone) == "info");
  CHECK(but([](Facts& f) {
          alter(f.machine.modules, [](auto& it) { it.push_back("nvidia_peermem"); });
        }).empty());
  CHECK(but([](Facts& f) {
          alter(f.machine.modules, [](auto& it) { it.push_back("nv_peer_mem"); });
        }).empty());
  CHECK(but([](Facts& f) { f.nvidia.open_module = true; }).empty());
  CHECK(but([](Facts& f) {
          f.nvidia.open_module = true;
          f.machine.kernel = std::string("5.4.0-150-generic");
        }) == "warning");
  // No finding for a GeForce, which has the class "VGA", unlike GPUs for data centres.
  CHECK(but([](Facts& f) {
          alter(f.machine.pci, [](auto& it) {
            for (PciFunction& one : it) one.class_code = 0x030000;
          });
        }).empty());
  CHECK(but([](Facts& f) {
          alter(f.rdma.ports, [](auto& it) { it.front().state = "DOWN"; });
        }).empty());
  CHECK(but([](Facts& f) {
          alter(f.process.environment, [](auto& it) { it.emplace("NCCL_IB_DISABLE", "1"); });
        }).empty());
  CHECK(but([](Facts& f) { alone(f), ethernet(f); }).empty());
  CHECK(but(ethernet) == "warning");
  // In a virtual machine, one or two Ethernet adapters are the normal network without RDMA,
  // but an InfiniBand adapter is not.
  CHECK(but([](Facts& f) { ethernet(f), f.machine.is_virtual = true; }).empty());
  CHECK(but([](Facts& f) { many(f, 2); }).empty());
  CHECK_MESSAGE(but([](Facts& f) { many(f, 4); }) == "warning", "RoCE for the GPUs");
  CHECK(but([](Facts& f) { many(f, 4), alone(f); }).empty());
  CHECK(but([](Facts& f) { f.machine.is_virtual = true; }) == "warning");
  CHECK(
      but([](Facts& f) {
        f.machine.is_virtual = true;
        ethernet(f);
        alter(f.rdma.ports, [](auto& it) { it.push_back({"mlx5_1", "ACTIVE", false, "/sys/…"}); });
      }) == "warning");
}

TEST_CASE("EFA adapters want NCCL's plugin in jobs of several machines") {
  Facts facts = node();
  facts.rdma.ports = std::vector{RdmaPort{"rdmap0", "ACTIVE", true, "/sys/…"}};
  PciFunction efa = card("0000:10:1b.0", 0x1d0f, 0xefa1, "efa");
  efa.class_code = 0x020000;
  alter(facts.machine.pci, [&](auto& it) { it.push_back(efa); });
  const auto plugin = [&] { return severity_of(rdma_rules(), facts, "RT15"); };
  CHECK(plugin() == "warning");
  facts.rdma.nccl_plugin = std::vector<std::string>{"/opt/amazon/ofi-nccl/lib/libnccl-net.so"};
  CHECK(plugin().empty());
  facts.rdma.nccl_plugin = std::vector<std::string>{};
  alone(facts);
  CHECK(plugin().empty());
  facts = node();
  CHECK(plugin().empty());
}

TEST_CASE("a container sees adapters that it may not open") {
  const auto verbs = [](const Facts& facts) { return severity_of(rdma_rules(), facts, "CTR23"); };
  Facts facts = node();
  CHECK(verbs(facts).empty());
  facts.container.kind = std::string("docker");
  CHECK(verbs(facts) == "warning");
  facts.rdma.nodes = std::vector<std::string>{"rdma_cm"};
  CHECK(verbs(facts) == "warning");
  facts.rdma.nodes = std::vector<std::string>{"rdma_cm", "uverbs0"};
  CHECK(verbs(facts).empty());
  facts.rdma.nodes = {};
  alone(facts);
  CHECK(verbs(facts) == "info");
  ethernet(facts);
  CHECK(verbs(facts).empty());
  alter(facts.process.environment, [](auto& it) { it.emplace("NCCL_IB_HCA", "mlx5_0"); });
  CHECK(verbs(facts) == "warning");
  facts.platform.cpu.flags = std::set<std::string, std::less<>>{"sse2", "hypervisor"};
  CHECK_MESSAGE(verbs(facts).empty(), "in a cloud's virtual machine");
  many(facts, 8);
  CHECK(verbs(facts) == "warning");
  ethernet(facts);
  alter(facts.rdma.ports, [](auto& it) { it.front().ethernet = false; });
  CHECK(verbs(facts) == "warning");
}

TEST_CASE("an adapter that is named and has no link") {
  Facts facts = node();
  facts.container.infiniband = std::vector<std::string>{"mlx5_0", "mlx5_1"};
  alter(facts.process.environment, [](auto& it) { it.emplace("NCCL_IB_HCA", "mlx5_0:1,mlx5_1"); });
  CHECK(severity_of(environment_rules(), facts, "ENV13").empty());
  alter(facts.rdma.ports, [](auto& it) { it.front().state = "DOWN"; });
  CHECK(severity_of(environment_rules(), facts, "ENV13") == "error");
  alter(facts.rdma.ports, [](auto& it) { it.push_back({"mlx5_1", "ACTIVE", false, "/sys/…"}); });
  CHECK(severity_of(environment_rules(), facts, "ENV13").empty());
}

}  // namespace rdma_test
