#include "engines/slurm_gres.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "engines/machines_for_tests.hpp"
#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::engines;
using Lines = std::vector<std::string>;

TEST_CASE("a type is a part of the name that Slurm finds itself") {
  CHECK(slurm_type("NVIDIA GeForce RTX 3090") == "rtx_3090");
  CHECK(slurm_type("NVIDIA A100-SXM4-40GB") == "a100-sxm4-40gb");
  CHECK(slurm_type("NVIDIA H100 80GB HBM3") == "h100_80gb_hbm3");
  CHECK(slurm_type("Tesla V100-SXM2-16GB") == "v100-sxm2-16gb");
  CHECK(slurm_type("AMD Instinct MI300X") == "mi300x");
  CHECK(slurm_type("NVIDIA") == "gpu");
}

TEST_CASE("GPUs stand in the order of PCI, those of one kind on one line") {
  auto seen = machine_of(4);
  // The driver's minor numbers of these GPUs do not follow the order of the PCI bus.
  std::swap(seen.devices[0].minor_number, seen.devices[3].minor_number);
  const auto node = gres_node(seen, two_sockets(), {});
  CHECK(gres_lines(node, {}) == Lines{"Name=gpu Type=rtx_3090 File=/dev/nvidia3 Cores=0-1",
                                      "Name=gpu Type=rtx_3090 File=/dev/nvidia1 Cores=0-1",
                                      "Name=gpu Type=rtx_3090 File=/dev/nvidia2 Cores=2-3",
                                      "Name=gpu Type=rtx_3090 File=/dev/nvidia0 Cores=2-3"});
  CHECK(gres_lines(gres_node(machine_of(4), std::nullopt, {}), {"n1", 0}) ==
        Lines{"NodeName=n1 Name=gpu Type=rtx_3090 File=/dev/nvidia[0-3]"});
}

TEST_CASE("NVLinks are written where they differ between pairs") {
  auto seen = machine_of(4);
  for (std::size_t i = 0; i < 4; ++i)
    seen.devices[i].nvlink_peers = {{seen.devices[i ^ 1U].pci_address, 4}};
  CHECK(gres_lines(gres_node(seen, std::nullopt, {}), {}) ==
        Lines{"Name=gpu Type=rtx_3090 File=/dev/nvidia0 Links=-1,4,0,0",
              "Name=gpu Type=rtx_3090 File=/dev/nvidia1 Links=4,-1,0,0",
              "Name=gpu Type=rtx_3090 File=/dev/nvidia2 Links=0,0,-1,4",
              "Name=gpu Type=rtx_3090 File=/dev/nvidia3 Links=0,0,4,-1"});
  for (auto& device : seen.devices) device.nvlink_peers = {{"", 12}};
  CHECK(gres_lines(gres_node(seen, std::nullopt, {}), {}) ==
        Lines{"Name=gpu Type=rtx_3090 File=/dev/nvidia[0-3]"});
}

TEST_CASE("shards are of each GPU, and slurm.conf has their sum") {
  const auto node = gres_node(machine_of(2), two_sockets(), {});
  const auto lines = gres_lines(node, {"", 4});
  CHECK(lines.back() == "Name=shard Count=4 File=/dev/nvidia1");
  CHECK(gres_value(node, 4) == "gpu:rtx_3090:2,shard:8");
  CHECK(slurm_lines(node, {"", 4}).front() == "GresTypes=gpu,shard");
  CHECK(slurm_lines(node, {}).back() ==
        "NodeName=lab1 CPUs=8 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=65536 "
        "Gres=gpu:rtx_3090:2");
}

TEST_CASE("a GPU that is lost, or without a device file, is left out and said") {
  auto seen = machine_of(3);
  seen.devices[0].health = model::Health::kLost;
  seen.devices[2].minor_number.reset();
  const auto node = gres_node(seen, std::nullopt, {});
  CHECK(gres_lines(node, {}) == Lines{"Name=gpu Type=rtx_3090 File=/dev/nvidia1"});
  CHECK(node.notes.size() == 2);
}

TEST_CASE("MIG slices have several files, and without their numbers they are left out") {
  system::TemporaryTree tree;
  tree.put("proc/driver/nvidia-caps/mig-minors",
           "config 1\nmonitor 2\ngpu0/gi7/access 66\ngpu0/gi7/ci0/access 67\n");
  auto seen = machine_of(1);
  seen.devices[0].name = "NVIDIA A100-SXM4-40GB";
  seen.devices[0].mig_enabled = true;
  seen.devices[0].partitions = {slice(7, 0), slice(8, 0)};
  const auto node = gres_node(seen, std::nullopt, read_mig_minors(tree.roots()));
  CHECK(gres_lines(node, {}) ==
        Lines{"Name=gpu Type=a100-sxm4-40gb_1g.5gb "
              "MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap[66-67]"});
  REQUIRE(node.notes.size() == 1);
  CHECK(gres_value(node, 4) == "gpu:a100-sxm4-40gb_1g.5gb:1");
}

TEST_CASE("cores count through the sockets, also where the kernel's numbers alternate") {
  system::TemporaryTree tree;
  tree.put("sys/devices/system/cpu/online", "0-7\n");
  for (int cpu = 0; cpu < 8; ++cpu) {
    const std::string at = fmt::format("sys/devices/system/cpu/cpu{}/topology/", cpu);
    tree.put(at + "physical_package_id", std::to_string(cpu % 2) + "\n");
    tree.put(at + "core_id", std::to_string(cpu / 2 % 2) + "\n");
  }
  const auto topology = read_cpu_topology(tree.roots());
  REQUIRE(topology);
  CHECK(topology->sockets == 2);
  CHECK(topology->cores == 4);
  CHECK(topology->threads == 8);
  CHECK(cores_near(*topology, "0,2,4,6") == "0-1");
  CHECK(cores_near(*topology, "1,3,5,7") == "2-3");
  CHECK(cores_near(*topology, "0-7").empty());
  CHECK(cores_near(*topology, "0-99").empty());
  CHECK_FALSE(read_cpu_topology(system::TemporaryTree().roots()));
}
