#include "model/device_selector.hpp"

#include <doctest/doctest.h>

using namespace berth;
using namespace berth::model;

namespace {

Device gpu(int index, std::string uuid, std::string pci) {
  Device device;
  device.index = index;
  device.uuid = std::move(uuid);
  device.pci_address = std::move(pci);
  return device;
}

std::vector<Device> machine() {
  std::vector<Device> devices{gpu(0, "GPU-aaaa1111-2222", "0000:81:00.0"),
                              gpu(1, "GPU-aaaa3333-4444", "0001:81:00.0"),
                              gpu(2, "", "0000:c1:00.0")};
  Partition part;
  part.uuid = "MIG-beef0001-0002";
  devices[1].partitions.push_back(part);
  Device cpu;
  cpu.index = 3;
  cpu.kind = DeviceKind::kCpu;
  devices.push_back(cpu);
  return devices;
}

}  // namespace

TEST_CASE("a device is named by index, uuid prefix or PCI address, in any case") {
  const struct {
    const char* word;
    int device;
    const char* partition;
  } rows[] = {{"0", 0, ""},
              {" 3 ", 3, ""},
              {"GPU-aaaa1", 0, ""},
              {"gpu-AAAA3333-4444", 1, ""},
              {"0000:81:00.0", 0, ""},
              {"00000001:81:00.0", 1, ""},
              {"C1:00.0", 2, ""},
              {"MIG-beef", 1, "MIG-beef0001-0002"}};
  for (const auto& row : rows) {
    CAPTURE(row.word);
    const auto found = select_device(machine(), row.word);
    REQUIRE(found);
    CHECK(found->device == row.device);
    CHECK(found->partition_uuid == row.partition);
  }
}

TEST_CASE("an invalid selector is a usage error") {
  for (const char* word : {"", " ", "-1", "all", "GPU-aa", "GPU-", "MIG-GPU-1", "81:00", "81:00.9",
                           "0:0:0:0.0", "1234567", "0x1", "GPU-aaaa;rm", "\xff\xfe\xfd\xfc"}) {
    CAPTURE(word);
    const auto found = select_device(machine(), word);
    REQUIRE_FALSE(found);
    CHECK(found.error().id == "E0415");
    CHECK(found.error().code == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("a partition is named as `ls` counts it, and named so again") {
  std::vector<Device> devices = machine();
  Partition part;
  part.index = 3;
  part.uuid = "MIG-0b0b";
  part.name = "MIG 1g.10gb";
  devices[0].partitions = {part};
  const std::string number = std::to_string(devices[0].index);
  const auto found = select_device(devices, number + ":3");
  REQUIRE(found);
  CHECK(found->partition_uuid == "MIG-0b0b");
  CHECK(unit_name(devices[0], found->partition_uuid) == number + ":3");
  CHECK(unit_words(devices[0], "MIG-0b0b").find(":3 (MIG 1g.10gb of ") != std::string::npos);
  CHECK(unit_name(devices[0], "") == number);
  CHECK(select_device(devices, number + ":0").error().id == "E0413");
  CHECK(select_device(devices, number + ":03").error().id == "E0415");
}

TEST_CASE("an ambiguous selector is refused with the candidates") {
  for (const char* word : {"GPU-aaaa", "81:00.0"}) {
    CAPTURE(word);
    const auto found = select_device(machine(), word);
    REQUIRE_FALSE(found);
    CHECK(found.error().id == "E0414");
    CHECK(found.error().message.find("1 (GPU-aaaa3333-4444)") != std::string::npos);
  }
}

TEST_CASE("a device that is not here is not found, and the hint lists those that are") {
  // a uuid without the prefix "GPU-" is rejected
  CHECK_FALSE(select_device(machine(), "aaaa1111"));
  const auto found = select_device(machine(), "7");
  REQUIRE_FALSE(found);
  CHECK(found.error().id == "E0413");
  CHECK(found.error().code == ErrorCode::kNotFound);
  CHECK(found.error().hint.find("0, 1, 2 (GPU), 3 (CPU)") != std::string::npos);
  CHECK(list_choices({}) == "none");
}

TEST_CASE("lists keep their order and name a device once") {
  const auto found = select_devices(machine(), {"2,0", "0,1"});
  REQUIRE(found);
  REQUIRE(found->size() == 3);
  CHECK((*found)[0].device == 2);
  CHECK((*found)[1].device == 0);
  CHECK((*found)[2].device == 1);
  CHECK_FALSE(select_devices(machine(), {}));
  CHECK_FALSE(select_devices(machine(), {"0,,1"}));
}
