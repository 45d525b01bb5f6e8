#include "model/topology.hpp"

#include <doctest/doctest.h>

using berth::model::Connection;
using berth::model::Device;
using berth::model::DeviceLink;
using berth::model::link_between;

namespace {

Device gpu(int index, const char* path, std::optional<int> node = std::nullopt) {
  Device device;
  device.index = index;
  device.pci_address = "0000:0" + std::to_string(index) + ":00.0";
  device.pci_path = path;
  device.numa_node = node;
  return device;
}

std::string code(const Device& a, const Device& b) {
  const DeviceLink there = link_between(a, b);
  CHECK(there == link_between(b, a));
  return there.code();
}

}  // namespace

TEST_CASE("the grade of a PCIe connection follows from the bridges that two devices share") {
  const Device a = gpu(1, "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0", 0);
  CHECK(code(a, a) == "X");
  CHECK(code(a, gpu(2, "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:04.0", 0)) == "PIX");
  CHECK(
      code(a, gpu(2, "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:08.0/0000:05:00.0/0000:06:00.0",
                  0)) == "PXB");
  CHECK(code(a, gpu(2, "pci0000:00/0000:00:03.0", 0)) == "PHB");
  CHECK(code(a, gpu(2, "pci0000:80/0000:80:01.0", 0)) == "NODE");
  CHECK(code(a, gpu(2, "pci0000:80/0000:80:01.0", 1)) == "SYS");
}

TEST_CASE("without paths, only the NUMA nodes say how near two devices are") {
  CHECK(code(gpu(1, "", 0), gpu(2, "", 0)) == "NODE");
  CHECK(code(gpu(1, "pci0000:00/0000:00:01.0", 0), gpu(2, "", 1)) == "SYS");
  CHECK(code(gpu(1, ""), gpu(2, "", 1)) == "?");
  CHECK(code(gpu(1, "pci0000:00/0000:00:01.0"), gpu(2, "pci0000:80/0000:80:01.0")) == "?");
}

TEST_CASE("NVLinks count if both ends see them, directly or through switches") {
  Device a = gpu(1, "", 0);
  Device b = gpu(2, "", 1);
  a.nvlink_peers = {{b.pci_address, 4}};
  CHECK(code(a, b) == "SYS");
  b.nvlink_peers = {{a.pci_address, 3}};
  CHECK(code(a, b) == "NV3");
  a.nvlink_peers = {{"", 18}};
  b.nvlink_peers = {{"", 17}};
  CHECK(code(a, b) == "NV17");
  // Two devices without a PCI address must not count as connected to each other.
  a.pci_address = b.pci_address = "";
  a.nvlink_peers = b.nvlink_peers = {};
  CHECK(code(a, b) == "SYS");
}

TEST_CASE("more NVLinks are nearer, and the farthest pair is the weakest link") {
  CHECK(DeviceLink{Connection::kNvLink, 12} < DeviceLink{Connection::kNvLink, 4});
  CHECK(DeviceLink{Connection::kNvLink, 1} < DeviceLink{Connection::kSwitch});
  const Device a = gpu(1, "", 0);
  const Device b = gpu(2, "", 0);
  const Device c = gpu(3, "", 1);
  CHECK(berth::model::weakest_link({&a}).code() == "X");
  CHECK(berth::model::weakest_link({&a, &b}).code() == "NODE");
  CHECK(berth::model::weakest_link({&a, &b, &c}).code() == "SYS");
}

TEST_CASE("devices in a chain of NVLinks are one group") {
  Device a = gpu(0, "", 0);
  Device b = gpu(1, "", 0);
  Device c = gpu(2, "", 0);
  Device d = gpu(3, "", 1);
  const auto join = [](Device& one, Device& other) {
    one.nvlink_peers.push_back({other.pci_address, 1});
    other.nvlink_peers.push_back({one.pci_address, 1});
  };
  join(b, c);
  const auto at = [&](Connection grade) {
    return berth::model::groups_at({&a, &b, &c, &d}, grade);
  };
  using Groups = std::vector<std::size_t>;
  CHECK(at(Connection::kNvLink) == Groups{0, 1, 1, 3});
  join(a, c);
  CHECK(at(Connection::kNvLink) == Groups{0, 0, 0, 3});
  CHECK(at(Connection::kNode) == Groups{0, 0, 0, 3});
  CHECK(at(Connection::kSystem) == Groups{0, 0, 0, 0});
}
