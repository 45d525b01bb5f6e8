#include "vendor/other/other.hpp"

#include <doctest/doctest.h>

#include <string>

#include "recorded.hpp"
#include "system/pci.hpp"

using namespace berth;
using namespace berth::other;
using model::DeviceKind;
using model::Health;

TEST_CASE(
    "accelerators of other makers are listed and not managed, their other devices are not listed") {
  const Roots roots = recorded("accelerators");
  const auto devices = read_unmanaged(system::scan_pci(roots));
  REQUIRE(devices.size() == 5);
  for (const model::Device& device : devices) {
    CHECK(device.kind == DeviceKind::kAccelerator);
    CHECK(!device.managed);
    CHECK(device.health == Health::kNotChecked);
    CHECK(device.note == "Berth lists this device, but does not manage it");
    CHECK(!device.readings.memory_total_bytes);
  }
  CHECK(devices[0].name == "AWS NeuronDevice (Inferentia2)");
  CHECK(devices[1].name == "Huawei Ascend d802");
  CHECK(devices[1].numa_node == 6);
  CHECK(devices[1].local_cpus == "144-167");
  CHECK(devices[2].name == "Tenstorrent Blackhole");
  CHECK(devices[3].name == "Moore Threads MTT S3000");
  CHECK(devices[4].name == "Cambricon 9999");
}

TEST_CASE("TPUs by their PCI ids, with the number of their node") {
  const Roots roots = recorded("tpu-v4");
  const auto devices = read_tpus(roots, system::scan_pci(roots));
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].kind == DeviceKind::kTpu);
  CHECK(devices[0].vendor == model::Vendor::kGoogle);
  CHECK(devices[0].name == "Google TPU v4");
  CHECK(devices[0].minor_number == 0U);
  CHECK(devices[1].minor_number == 1U);
  CHECK(devices[1].pci_address == "0000:00:05.0");
  CHECK(devices[1].health == Health::kNotChecked);
  CHECK(!devices[1].readings.memory_total_bytes);
}

TEST_CASE("TPUs by their nodes alone, where the bus is hidden") {
  const auto devices = read_tpus(recorded("tpu-nodes-only"), {});
  REQUIRE(devices.size() == 2);
  CHECK(devices[1].minor_number == 1U);
  CHECK(devices[1].pci_address.empty());
  CHECK(devices[0].note ==
        "only the device node is known: /dev/accel0; no interface shows which processes use a TPU");
}

TEST_CASE("a machine without accelerators has none") {
  CHECK(read_unmanaged({}).empty());
  CHECK(read_tpus(recorded("no-such-machine"), {}).empty());
}
