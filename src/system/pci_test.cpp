#include "system/pci.hpp"

#include <doctest/doctest.h>
#include <test_paths.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "system/pci_names.hpp"

using namespace berth;
using namespace berth::system;

namespace {
/// A temporary folder, deleted afterwards.
struct Tree {
  std::string root;
  Tree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "berth-pci-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    root = pattern;
  }
  ~Tree() { std::filesystem::remove_all(root); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root + "/bus/pci/devices/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  [[nodiscard]] std::vector<PciDevice> scan() const {
    Roots roots;
    roots.sys = root;
    return scan_pci(roots);
  }
};
constexpr const char* kUevent =
    "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330\nPCI_SUBSYS_ID=10DE:16C1\n"
    "PCI_SLOT_NAME=0000:1b:00.0\n";
}  // namespace

TEST_CASE("a GPU on the bus with its link and its processors") {
  const Tree tree;
  tree.write("0000:1B:00.0/uevent", kUevent);
  tree.write("0000:1B:00.0/power/runtime_status", "active\n");
  tree.write("0000:1B:00.0/numa_node", "1\n");
  tree.write("0000:1B:00.0/local_cpulist", "56-111,168-223\n");
  tree.write("0000:1B:00.0/current_link_speed", "32.0 GT/s PCIe\n");
  tree.write("0000:1B:00.0/max_link_speed", "32.0 GT/s PCIe\n");
  tree.write("0000:1B:00.0/current_link_width", "16\n");
  tree.write("0000:1B:00.0/max_link_width", "255\n");
  tree.write("0000:00:1f.2/uevent", "DRIVER=ahci\nPCI_CLASS=10601\nPCI_ID=8086:A182\n");
  const auto devices = tree.scan();
  REQUIRE(devices.size() == 1);
  const PciDevice& gpu = devices[0];
  CHECK(gpu.address == "0000:1b:00.0");
  CHECK(gpu.id() == 0x10de2330);
  CHECK(gpu.subsystem_device == 0x16c1);
  CHECK(gpu.class_code == 0x030200);
  CHECK(gpu.driver == "nvidia");
  CHECK(!gpu.suspended);
  CHECK(gpu.numa_node == 1);
  CHECK(gpu.local_cpus == "56-111,168-223");
  CHECK(gpu.link_speed_gts == 32.0);
  CHECK(gpu.link_width == 16);
  CHECK(!gpu.link_width_max);
  CHECK(gpu.name == "H100 SXM5 80GB");
}

TEST_CASE("the link of a suspended device is not read") {
  const Tree tree;
  tree.write("0000:01:00.0/uevent", kUevent);
  tree.write("0000:01:00.0/power/runtime_status", "suspended\n");
  tree.write("0000:01:00.0/numa_node", "-1\n");
  tree.write("0000:01:00.0/current_link_speed", "2.5 GT/s PCIe\n");
  const auto devices = tree.scan();
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].suspended);
  CHECK(!devices[0].link_speed_gts);
  CHECK(!devices[0].numa_node);
}

TEST_CASE("the bridges above a device are where the link in the bus folder leads") {
  const Tree tree;
  const std::string target = tree.root + "/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
  std::filesystem::create_directories(target);
  std::ofstream(target + "/uevent") << kUevent;
  tree.write("0000:41:00.0/uevent", kUevent);
  std::filesystem::create_symlink("../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0",
                                  tree.root + "/bus/pci/devices/0000:01:00.0");
  const auto devices = tree.scan();
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].path == "pci0000:00/0000:00:01.0");
  CHECK(devices[1].path.empty());
}

TEST_CASE("a tree without uevent is read from single files") {
  const Tree tree;
  tree.write("0000:c1:00.0/class", "0x030000\n");
  tree.write("0000:c1:00.0/vendor", "0x1002\n");
  tree.write("0000:c1:00.0/device", "0x744c\n");
  std::filesystem::create_symlink("../../../drivers/amdgpu",
                                  tree.root + "/bus/pci/devices/0000:c1:00.0/driver");
  const auto devices = tree.scan();
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].id() == 0x1002744c);
  CHECK(devices[0].driver == "amdgpu");
}

TEST_CASE("accelerators of other PCI classes are found, network cards of their vendors are not") {
  const Tree tree;
  tree.write("0000:00:1e.0/uevent", "PCI_CLASS=88000\nPCI_ID=1D0F:7264\n");
  tree.write("0000:00:05.0/uevent", "DRIVER=ena\nPCI_CLASS=20000\nPCI_ID=1D0F:EC20\n");
  tree.write("0000:00:06.0/uevent", "PCI_CLASS=120000\nPCI_ID=19E5:D802\n");
  const auto devices = tree.scan();
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].id() == 0x19e5d802);
  CHECK(devices[1].id() == 0x1d0f7264);
}

TEST_CASE("invalid entries on the bus are skipped") {
  const Tree tree;
  tree.write("not-an-address/uevent", kUevent);
  tree.write("0000:02:00.0/uevent",
             std::string("\0\xff=PCI_CLASS\nPCI_ID=10DE\nPCI_CLASS=30000", 41));
  tree.write("0000:03:00.0/class", "");
  tree.write("0000:04:00.0/uevent", kUevent);
  tree.write("0000:04:00.0/local_cpulist", "0-99999999\n");
  tree.write("0000:04:00.0/current_link_speed", "Unknown\n");
  tree.write("0000:04:00.0/current_link_width", "-7\n");
  const auto devices = tree.scan();
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].local_cpus.empty());
  CHECK(!devices[0].link_speed_gts);
  CHECK(!devices[0].link_width);
}

TEST_CASE("link speeds are generations") {
  CHECK(pcie_generation(2.5) == 1);
  CHECK(pcie_generation(16.0) == 4);
  CHECK(pcie_generation(64.0) == 6);
  CHECK(!pcie_generation(7.0));
  CHECK(!pcie_generation(0));
}

TEST_CASE("names come from the table by binary search") {
  CHECK(pci_name(0x10de, 0x2684) == "GeForce RTX 4090");
  CHECK(pci_name(0x1002, 0x744c, 0xc8) == "Radeon RX 7900 XTX");
  CHECK(pci_name(0x1002, 0x744c, 0xcc) == "Radeon RX 7900 XT");
  CHECK(pci_name(0x1002, 0x744c, 0x00) == pci_name(0x1002, 0x744c));
  CHECK(pci_name(0x1002, 0x74a1) == "Instinct MI300X");
  CHECK(pci_name(0x8086, 0x56a0) == "Arc A770");
  CHECK(!pci_name(0xffff, 0xffff));
  CHECK(!pci_name(0x0000, 0x0000));
  const std::string_view table = "# comment\n00010002 a\n10de0001 b\nffffffff c\n";
  CHECK(name_in_table(table, 1, 2) == "a");
  CHECK(name_in_table(table, 0x10de, 1) == "b");
  CHECK(name_in_table(table, 0xffff, 0xffff) == "c");
  CHECK(!name_in_table(table, 0x10de, 2));
  CHECK(!name_in_table("", 1, 2));
}

TEST_CASE("every line of the table of names is found, and the lines are sorted") {
  std::ifstream file(std::string(BERTH_SOURCE_DIR) + "/data/pci_names.txt");
  std::string line;
  std::string before;
  int count = 0;
  while (std::getline(file, line)) {
    if (line.starts_with('#')) continue;
    REQUIRE(line.size() > 9);
    CHECK(before < line.substr(0, 8));
    before = line.substr(0, 8);
    const auto id = static_cast<std::uint32_t>(std::stoul(before, nullptr, 16));
    CHECK(pci_name(static_cast<std::uint16_t>(id >> 16), static_cast<std::uint16_t>(id)) ==
          line.substr(9));
    ++count;
  }
  CHECK(count > 1000);
}
