#include "engines/kube_devices.hpp"

#include <doctest/doctest.h>

#include "engines/machines_for_tests.hpp"

using namespace berth;
using namespace berth::engines;
using Ids = std::vector<std::string>;

namespace {

std::string uuid(int i) {
  return "GPU-0000000" + std::to_string(i) + "-0000-0000-0000-000000000000";
}
std::string share(int gpu, int n) {
  return uuid(gpu) + "::" + std::to_string(n);
}

}  // namespace

TEST_CASE("a GPU is offered as a whole or in shares, never both") {
  const auto units = kube_units(machine_of(2));
  const auto whole = kube_resources(units, {});
  REQUIRE(whole.size() == 1);
  CHECK(whole[0].name == "berth.dev/gpu");
  CHECK(whole[0].devices.size() == 2);
  const auto shared = kube_resources(units, {4, KubePass::kEnv});
  REQUIRE(shared.size() == 1);
  CHECK(shared[0].name == "berth.dev/gpu-share");
  CHECK(shared[0].devices.size() == 8);
  CHECK(shared[0].devices[1].id == share(0, 1));
  CHECK(shared[0].devices[1].memory_limit_bytes == std::uint64_t{6} << 30U);
}

TEST_CASE("MIG slices are a resource by their profile") {
  auto seen = machine_of(1);
  seen.devices[0].mig_enabled = true;
  auto part = slice(7, 0);
  part.name = "MIG 1g.5gb+me";
  part.uuid = "MIG-1";
  seen.devices[0].partitions = {part};
  const auto resources = kube_resources(kube_units(seen), {4, KubePass::kEnv});
  REQUIRE(resources.size() == 2);
  CHECK(resources[0].devices.empty());
  CHECK(resources[1].name == "berth.dev/mig-1g.5gb.me");
  CHECK(resources[1].devices[0].id == "MIG-1");
}

TEST_CASE("a GPU that fails or goes away is not healthy, and comes back") {
  auto seen = machine_of(2);
  const auto before = kube_units(seen);
  CHECK(before[1].healthy);
  seen.devices[1].health = model::Health::kLost;
  CHECK_FALSE(kube_units(seen)[1].healthy);
  CHECK_FALSE(kube_units(seen)[1].why.empty());
  seen.devices.pop_back();
  const auto gone = with_missing(kube_units(seen), before);
  REQUIRE(gone.size() == 2);
  CHECK_FALSE(gone[1].healthy);
  const auto back = with_missing(kube_units(machine_of(2)), gone);
  CHECK(back.size() == 2);
  CHECK(back[1].healthy);
  // A slow GPU counts as healthy, so its pods keep it.
  auto hot = machine_of(1);
  hot.devices[0].readings.temperature_celsius = 97.0;
  CHECK(kube_units(hot)[0].healthy);
}

TEST_CASE("a unit that is lost keeps what was known of it, and its MIG slices stay slices") {
  const auto before = kube_units(machine_of(1));
  auto seen = machine_of(1);
  seen.devices[0].health = model::Health::kLost;
  seen.devices[0].readings = {};
  const auto lost = with_missing(kube_units(seen), before);
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].memory_bytes == before[0].memory_bytes);
  CHECK(lost[0].fault == "no-answer");
  KubeUnit part = before[0];
  part.uuid = "MIG-1";
  part.profile = "1g.5gb";
  const auto parts = with_missing(kube_units(seen), {part});
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].uuid == "MIG-1");
  CHECK(parts[0].fault == "lost");
  // A slice that was replaced by another one is not lost.
  KubeUnit other = part;
  other.uuid = "MIG-2";
  CHECK(with_missing({other}, {part}).size() == 1);
}

TEST_CASE("a container gets its devices in the way that its runtime takes them") {
  const auto units = kube_units(machine_of(2));
  const auto env = kube_answer({uuid(0), uuid(1)}, units, {});
  REQUIRE(env);
  CHECK(env->variables.at("NVIDIA_VISIBLE_DEVICES") == uuid(0) + "," + uuid(1));
  CHECK(env->limits.empty());
  CHECK(env->nodes.empty());
  const auto cdi = kube_answer({uuid(1)}, units, {0, KubePass::kCdi});
  CHECK(cdi->cdi == Ids{"nvidia.com/gpu=" + uuid(1)});
  const auto nodes = kube_answer({uuid(1)}, units, {0, KubePass::kNodes});
  CHECK(nodes->nodes ==
        Ids{"/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"});
}

TEST_CASE("shares of one GPU add up to one limit") {
  const auto units = kube_units(machine_of(2));
  auto answer = kube_answer({share(1, 0), share(1, 3)}, units, {4, KubePass::kEnv});
  REQUIRE(answer);
  CHECK(answer->variables.at("NVIDIA_VISIBLE_DEVICES") == uuid(1));
  CHECK(answer->limits == std::map<std::string, std::uint64_t>{{uuid(1), 12ULL << 30U}});
  add_guard(*answer, {"/l", "/limits", "/usage"});
  CHECK(answer->variables.at("LD_PRELOAD") == "/run/berth/libberth-guard.so");
  REQUIRE(answer->mounts.size() == 3);
  CHECK(answer->mounts[1].read_only);
  CHECK_FALSE(answer->mounts[2].read_only);
}

TEST_CASE("units that were not offered or are unhealthy are not allocated") {
  auto units = kube_units(machine_of(2));
  const KubeConfig shared{4, KubePass::kEnv};
  CHECK(kube_answer({}, units, {}).error().id == "E1031");
  CHECK(kube_answer({"GPU-x"}, units, {}).error().id == "E1031");
  CHECK(kube_answer({share(0, 1)}, units, {}).error().id == "E1031");
  CHECK(kube_answer({uuid(0)}, units, shared).error().id == "E1031");
  CHECK(kube_answer({share(0, 4)}, units, shared).error().id == "E1031");
  CHECK(kube_answer({uuid(0) + "::"}, units, shared).error().id == "E1031");
  units[0].healthy = false;
  CHECK(kube_answer({uuid(0)}, units, {}).error().id == "E1032");
}

TEST_CASE("memory is offered in steps, and a container gets steps of one GPU") {
  auto units = kube_units(machine_of(2));
  const KubeConfig config{0, KubePass::kEnv, 5ULL << 30U};
  const auto offered = kube_resources(units, config);
  REQUIRE(offered.size() == 1);
  CHECK(offered[0].name == "berth.dev/gpu-memory");
  // A GPU of 24 GiB has four steps of 5 GiB, and there are two GPUs.
  REQUIRE(offered[0].devices.size() == 8);
  CHECK(offered[0].devices[7].id == share(1, 3));
  CHECK(offered[0].devices[7].memory_limit_bytes == 5ULL << 30U);
  const auto answer = kube_answer({share(1, 0), share(1, 3)}, units, config);
  REQUIRE(answer);
  CHECK(answer->limits == std::map<std::string, std::uint64_t>{{uuid(1), 10ULL << 30U}});
  CHECK(kube_answer({share(1, 4)}, units, config).error().id == "E1031");
  const auto both = kube_answer({share(0, 0), share(1, 3)}, units, config);
  CHECK(both.error().id == "E1039");
  CHECK(both.error().message.find(uuid(0) + " 5.00 GiB") != std::string::npos);
  units[0].memory_bytes.reset();  // a GPU whose memory is not known has no steps
  CHECK(kube_resources(units, config)[0].devices.size() == 4);
}

TEST_CASE("shares are packed on one GPU, GPUs on one NUMA node") {
  auto seen = machine_of(4);
  for (int i = 0; i < 4; ++i) seen.devices[static_cast<std::size_t>(i)].numa_node = i / 2;
  const auto units = kube_units(seen);
  CHECK(preferred(units, {share(0, 0), share(0, 1), share(0, 2), share(1, 1), share(1, 2)}, {},
                  2) == Ids{share(1, 1), share(1, 2)});
  CHECK(preferred(units, {share(0, 0), share(0, 1), share(1, 1)}, {share(0, 1)}, 2) ==
        Ids{share(0, 1), share(0, 0)});
  CHECK(preferred(units, {uuid(0), uuid(2), uuid(3)}, {}, 2) == Ids{uuid(2), uuid(3)});
  CHECK(preferred(units, {uuid(0), uuid(1), uuid(3)}, {}, 1) == Ids{uuid(3)});
  CHECK(preferred(units, {uuid(0)}, {}, 2) == Ids{uuid(0)});
}

TEST_CASE("GPUs that NVLinks or a switch connect are given together") {
  auto seen = machine_of(6);
  // Bridges join 0 and 5, and 1 and 4. A switch joins 2 and 3.
  for (const auto& [one, other] : {std::pair{0, 5}, {5, 0}, {1, 4}, {4, 1}})
    seen.devices[static_cast<std::size_t>(one)].nvlink_peers = {
        {seen.devices[static_cast<std::size_t>(other)].pci_address, 4}};
  for (const std::size_t i : {2U, 3U})
    seen.devices[i].pci_path =
        "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:0" + std::to_string(i) + ".0";
  const auto units = kube_units(seen);
  const auto ids = [&](std::initializer_list<std::size_t> numbers) {
    Ids out;
    for (const std::size_t i : numbers) out.push_back(units[i].uuid);
    return out;
  };
  CHECK(preferred(units, ids({0, 1, 2, 3, 4, 5}), {}, 2) == ids({0, 5}));
  CHECK(preferred(units, ids({1, 2, 3, 4, 5}), {}, 1) == ids({5}));
  CHECK(preferred(units, ids({0, 1, 2, 3}), {}, 2) == ids({2, 3}));
  CHECK(preferred(units, ids({0, 1, 2, 3, 4, 5}), ids({4}), 2) == ids({4, 1}));
  const auto groups = nvlink_groups(units);
  CHECK(groups.size() == 4);
  CHECK(groups.at(units[5].uuid) == units[0].uuid);
  CHECK(groups.at(units[4].uuid) == units[1].uuid);
}

TEST_CASE("units survive their line of JSON") {
  auto seen = machine_of(2);
  seen.devices[0].pci_path = "pci0000:00/0000:00:01.0";
  seen.devices[0].nvlink_peers = {{"", 12}, {"0000:02:00.0", 4}};
  auto units = kube_units(seen);
  units[0].memory_bytes.reset();
  units[0].healthy = false;
  units[0].why = "\"\xff\n";
  const auto again = units_in(units_line(units));
  REQUIRE(again);
  REQUIRE(again->size() == 2);
  CHECK_FALSE((*again)[0].memory_bytes);
  CHECK_FALSE((*again)[0].healthy);
  CHECK((*again)[1].memory_bytes == units[1].memory_bytes);
  CHECK((*again)[1].minor == units[1].minor);
  CHECK((*again)[0].pci_path == units[0].pci_path);
  REQUIRE((*again)[0].nvlink_peers.size() == 2);
  CHECK((*again)[0].nvlink_peers[0].pci_address.empty());
  CHECK((*again)[0].nvlink_peers[1].links == 4);
  CHECK(units_in("[{}]").error().id == "E1033");
  CHECK(units_in("x").error().id == "E1033");
}
