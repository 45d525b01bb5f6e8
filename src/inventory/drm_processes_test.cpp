#include "inventory/drm_processes.hpp"

#include <doctest/doctest.h>

using namespace berth::inventory;
using namespace berth::model;
using berth::system::DrmClient;

namespace {

Device gpu(Vendor vendor, std::string address) {
  Device made;
  made.vendor = vendor;
  made.pci_address = std::move(address);
  set_all_absent(made.readings, Absence::kNotSupported);
  made.readings.memory_total_bytes = 1000U;
  return made;
}

DrmClient client(std::int64_t pid, std::string address, std::optional<std::uint64_t> device_bytes,
                 std::optional<std::uint64_t> host_bytes = {}) {
  DrmClient made;
  made.pid = pid;
  made.pci_address = std::move(address);
  made.device_bytes = device_bytes;
  made.host_bytes = host_bytes;
  made.compute = true;
  return made;
}

const std::string kFirst = "0000:03:00.0", kSecond = "0000:83:00.0";

}  // namespace

TEST_CASE("clients become rows of the AMD and Intel device whose node they hold") {
  std::vector<Device> devices = {gpu(Vendor::kNvidia, "0000:01:00.0"), gpu(Vendor::kAmd, kFirst),
                                 gpu(Vendor::kIntel, kSecond)};
  std::vector<DeviceProcess> rows;
  add_drm_processes(
      {{client(7, kFirst, 10, 99), client(7, kSecond, 20), client(8, "0000:01:00.0", 5),
        client(9, "", 5), client(10, kSecond, std::nullopt, 3)}},
      true, devices, rows);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].device == 1);
  CHECK(rows[0].pid == 7);
  CHECK(!rows[0].host_pid);
  CHECK(*rows[0].memory_bytes == 10);
  CHECK(rows[0].kind.compute);
  CHECK(rows[0].sm_percent.why == Absence::kNeedsTwoReadings);
  CHECK(rows[1].device == 2);
  CHECK(rows[2].pid == 10);
  CHECK(!rows[2].memory_bytes);
}

TEST_CASE("memory in use is the sum of the clients only if all of them are readable") {
  const auto used = [](const std::vector<DrmClient>& clients, bool everybody, Device device) {
    std::vector<Device> devices = {std::move(device)};
    std::vector<DeviceProcess> rows;
    add_drm_processes({clients, true}, everybody, devices, rows);
    return devices[0].readings.memory_used_bytes;
  };
  const Device intel = gpu(Vendor::kIntel, kFirst);
  CHECK(used({client(1, kFirst, 10), client(2, kFirst, 30)}, true, intel).value == 40);
  CHECK(used({}, true, intel).value == 0);
  CHECK(used({client(1, kFirst, 10)}, false, intel).why == Absence::kNoPermission);
  CHECK(!used({client(1, kFirst, 10)}, false, intel));
  CHECK(!used({client(1, kFirst, 10), client(2, kFirst, std::nullopt)}, true, intel));
  CHECK(!used({client(1, kFirst, 5000)}, true, intel));
  std::vector<Device> cut_short = {intel};
  std::vector<DeviceProcess> some;
  add_drm_processes({{client(1, kFirst, 10)}, false}, true, cut_short, some);
  CHECK(cut_short[0].readings.memory_used_bytes.why == Absence::kNoAnswer);
  CHECK(some.size() == 1);
  Device told = intel;
  told.readings.memory_used_bytes = 77U;
  CHECK(used({client(1, kFirst, 10)}, true, told).value == 77);
  Device asleep = intel;
  asleep.readings.memory_used_bytes = Absence::kAsleep;
  CHECK(used({}, true, asleep).why == Absence::kAsleep);
}

TEST_CASE("a device with unreadable processes and memory does not count as unused") {
  std::vector<Device> devices = {gpu(Vendor::kIntel, kFirst), gpu(Vendor::kAmd, kSecond)};
  devices[1].readings.memory_used_bytes = 10U;
  std::vector<DeviceProcess> rows;
  add_drm_processes({}, false, devices, rows);
  CHECK(devices[0].processes_unknown == Absence::kNoPermission);
  // used memory is known, so processes that cannot be seen do not make the device look unused
  CHECK_FALSE(devices[1].processes_unknown);
  devices[0].processes_unknown.reset();
  devices[0].readings.memory_used_bytes = Absence::kNotSupported;
  add_drm_processes({}, true, devices, rows);
  CHECK_FALSE(devices[0].processes_unknown);
}

TEST_CASE("graphics inside a processor uses the host's memory") {
  Device integrated = gpu(Vendor::kIntel, kFirst);
  integrated.memory_unified = true;
  std::vector<Device> devices = {integrated};
  std::vector<DeviceProcess> rows;
  add_drm_processes({{client(1, kFirst, 10, 30), client(2, kFirst, std::nullopt, 5)}}, true,
                    devices, rows);
  CHECK(*rows[0].memory_bytes == 40);
  CHECK(*rows[1].memory_bytes == 5);
  CHECK(!devices[0].readings.memory_used_bytes);
}
