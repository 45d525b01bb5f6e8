#include "system/gpu_nodes.hpp"

#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::system;
using model::NodeNumber;
using model::Vendor;

namespace {

constexpr const char* kDevices =
    "Character devices:\n  1 mem\n195 nvidia\n226 drm\n235 nvidia-caps\n"
    "236 nvidia-caps-imex-channels\n510 nvidia-uvm\n511 kfd\n\nBlock devices:\n  8 sd\n252 "
    "mapper\n";

model::Device gpu(int index, Vendor vendor, const char* address,
                  std::optional<std::uint32_t> minor = {}) {
  model::Device device;
  device.index = index;
  device.vendor = vendor;
  device.pci_address = address;
  device.minor_number = minor;
  return device;
}

}  // namespace

TEST_CASE("major numbers of character devices are found by name") {
  CHECK(character_major(kDevices, "nvidia-uvm") == 510U);
  CHECK(character_major(kDevices, "nvidia-caps") == 235U);
  CHECK(!character_major(kDevices, "nvidia-cap"));
  CHECK(!character_major(kDevices, "mapper"));
  CHECK(!character_major("", "kfd"));
  CHECK(!character_major("Character devices:\n-1 kfd\nx kfd\n 99999 kfd\n", "kfd"));
}

TEST_CASE("nodes of NVIDIA's, AMD's and Intel's GPUs") {
  const TemporaryTree tree;
  tree.put("proc/devices", kDevices);
  const std::string pci = "sys/bus/pci/devices/";
  tree.folder(pci + "0000:01:00.0/drm/card1");
  tree.folder(pci + "0000:01:00.0/drm/renderD128");
  tree.folder(pci + "0000:02:00.0/drm/card2");
  tree.folder(pci + "0000:02:00.0/drm/renderD129");
  tree.folder(pci + "0000:02:00.0/drm/card2-DP-1");  // a display connector, which has no node
  tree.folder(pci + "0000:04:00.0/drm/card0");
  auto screen = gpu(3, Vendor::kOther, "0000:04:00.0");
  screen.managed = false;
  const auto nodes = gpu_nodes(tree.roots(), {gpu(0, Vendor::kNvidia, "0000:01:00.0", 5),
                                              gpu(1, Vendor::kAmd, "0000:02:00.0"),
                                              gpu(2, Vendor::kNvidia, "0000:03:00.0"), screen});
  // the third GPU has no minor number, so its node is unknown and it is left out
  REQUIRE(nodes.devices.size() == 2);
  CHECK(nodes.devices[0].nodes == std::vector<NodeNumber>{{195, 5}, {226, 1}, {226, 128}});
  CHECK(nodes.devices[1].nodes == std::vector<NodeNumber>{{226, 2}, {226, 129}});
  CHECK(nodes.majors == std::vector<std::uint32_t>{195, 235});
  CHECK(nodes.control.size() == 4);
}

TEST_CASE("nodes of MIG instances, and those that cannot be found") {
  const TemporaryTree tree;
  tree.put("proc/devices", kDevices);
  const std::string mig = "proc/driver/nvidia/capabilities/gpu2/mig/gi7/";
  tree.put(mig + "access", "DeviceFileMinor: 66\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
  tree.put(mig + "ci0/access", "DeviceFileMinor: 67\n");
  auto device = gpu(0, Vendor::kNvidia, "0000:01:00.0", 2);
  device.partitions.resize(2);
  device.partitions[0].uuid = "MIG-a";
  device.partitions[0].gpu_instance = 7;
  device.partitions[0].compute_instance = 0;
  device.partitions[1].uuid = "MIG-b";
  device.partitions[1].gpu_instance = 8;
  device.partitions[1].compute_instance = 0;
  const auto nodes = gpu_nodes(tree.roots(), {device});
  REQUIRE(nodes.devices.size() == 1);
  const auto& found = nodes.devices[0].partitions;
  REQUIRE(found.size() == 2);
  CHECK((found[0].known && found[0].nodes == std::vector<NodeNumber>{{235, 66}, {235, 67}}));
  CHECK(!found[1].known);
}
