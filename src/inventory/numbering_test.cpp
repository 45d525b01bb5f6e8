#include "inventory/numbering.hpp"

#include <doctest/doctest.h>

using namespace berth::inventory;
using namespace berth::model;

namespace {

Device device(DeviceKind kind, Vendor vendor, std::string address, std::string name = {}) {
  Device made;
  made.kind = kind;
  made.vendor = vendor;
  made.pci_address = std::move(address);
  made.name = std::move(name);
  return made;
}

DeviceProcess process(int on, std::int64_t pid, Reading<std::uint64_t> memory) {
  DeviceProcess made;
  made.device = on;
  made.host_pid = pid;
  made.memory_bytes = memory;
  return made;
}

}  // namespace

TEST_CASE("devices are numbered by kind, vendor and address, and the CPU is last") {
  std::vector<Device> devices = {
      device(DeviceKind::kCpu, Vendor::kOther, "", "cpu"),
      device(DeviceKind::kOpenCl, Vendor::kOther, "", "pocl"),
      device(DeviceKind::kAccelerator, Vendor::kOther, "0000:01:00.0", "ascend"),
      device(DeviceKind::kTpu, Vendor::kGoogle, "0000:00:04.0", "tpu"),
      device(DeviceKind::kGpu, Vendor::kIntel, "0000:00:02.0", "iris"),
      device(DeviceKind::kGpu, Vendor::kAmd, "0000:03:00.0", "radeon"),
      device(DeviceKind::kGpu, Vendor::kNvidia, "10000:01:00.0", "second domain"),
      device(DeviceKind::kGpu, Vendor::kNvidia, "", "jetson"),
      device(DeviceKind::kGpu, Vendor::kNvidia, "0000:81:00.0", "h100 b"),
      device(DeviceKind::kGpu, Vendor::kNvidia, "0000:0a:00.0", "h100 a"),
  };
  std::vector<DeviceProcess> processes = {process(8, 1, 1U), process(0, 2, 1U), process(99, 3, 1U),
                                          process(-1, 4, 1U)};
  number_devices(devices, processes);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    CHECK(devices[i].index == static_cast<int>(i));
    names.push_back(devices[i].name);
  }
  CHECK(names == std::vector<std::string>{"h100 a", "h100 b", "second domain", "jetson", "radeon",
                                          "iris", "tpu", "ascend", "pocl", "cpu"});
  CHECK(processes[0].device == 1);
  CHECK(processes[1].device == 9);
  CHECK(processes[2].device == -1);
  CHECK(processes[3].device == -1);
}

TEST_CASE("equal devices keep the order of the driver") {
  std::vector<Device> devices;
  for (const std::uint32_t number : {2U, 0U, 1U}) {
    devices.push_back(device(DeviceKind::kGpu, Vendor::kNvidia, ""));
    devices.back().vendor_index = number;
  }
  std::vector<DeviceProcess> none;
  number_devices(devices, none);
  CHECK(devices[0].vendor_index == 0);
  CHECK(devices[2].vendor_index == 2);
}

TEST_CASE("processes are ordered by device, then memory with the unknown last, then pid") {
  std::vector<DeviceProcess> processes = {
      process(1, 10, 5U), process(0, 11, Absence::kNotSupported),
      process(0, 12, 7U), process(0, 9, 7U),
      process(0, 13, 0U), process(0, 14, 900U)};
  sort_processes(processes);
  std::vector<std::int64_t> pids;
  for (const auto& row : processes) pids.push_back(*row.host_pid);
  CHECK(pids == std::vector<std::int64_t>{14, 9, 12, 13, 11, 10});
}
