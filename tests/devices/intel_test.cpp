#include "vendor/intel/intel.hpp"

#include <doctest/doctest.h>

#include <string>

#include "recorded.hpp"
#include "system/pci.hpp"

using namespace berth;
using namespace berth::intel;
using model::Absence;
using model::Health;

namespace {
std::vector<model::Device> look(const std::string& machine) {
  const Roots roots = recorded(machine);
  return read_devices(roots, system::scan_pci(roots));
}
}  // namespace

TEST_CASE("the processor's own graphics share the host's memory") {
  const auto devices = look("intel-arc");
  REQUIRE(devices.size() == 4);
  const model::Device& gpu = devices[0];
  CHECK(gpu.name == "Intel UHD Graphics 770");
  CHECK(gpu.memory_unified);
  CHECK(gpu.minor_number == 128U);
  CHECK(gpu.readings.clock_graphics_mhz.value == 350ULL);
  CHECK(gpu.readings.clock_graphics_max_mhz.value == 1650ULL);
  CHECK(!gpu.readings.memory_total_bytes);
  CHECK(gpu.readings.power_milliwatts.why == Absence::kNotSupported);
  CHECK(gpu.readings.utilization_percent.why == Absence::kNeedsTwoReadings);
  CHECK(gpu.health == Health::kNotChecked);
}

TEST_CASE("an Arc card with i915 has an energy counter and throttle reasons") {
  const model::Device gpu = look("intel-arc").at(1);
  CHECK(gpu.name == "Intel Arc A770");
  CHECK(!gpu.memory_unified);
  CHECK(gpu.readings.memory_total_bytes.value == 17079205888ULL);
  CHECK(!gpu.readings.memory_used_bytes);
  CHECK(gpu.readings.energy_millijoules.value == 123456789ULL);
  CHECK(!gpu.readings.power_milliwatts);
  CHECK(gpu.readings.power_milliwatts.why == Absence::kNeedsTwoReadings);
  CHECK(gpu.readings.power_limit_milliwatts.value == 190000ULL);
  CHECK(gpu.throttle_reasons == std::vector<std::string>{"sw_power_cap"});
}

TEST_CASE("an Arc card with xe") {
  const model::Device gpu = look("intel-arc").at(2);
  CHECK(gpu.name == "Intel Arc B580");
  CHECK(gpu.kernel_driver == "xe");
  CHECK(gpu.readings.memory_total_bytes.value == 12884901888ULL);
  CHECK(gpu.readings.clock_graphics_mhz.value == 2850ULL);
  CHECK(gpu.readings.temperature_celsius.value == 51.0);
  CHECK(gpu.throttle_reasons.empty());
}

TEST_CASE("a card given to a virtual machine is not managed") {
  const model::Device gpu = look("intel-arc").at(3);
  CHECK(!gpu.managed);
  CHECK(gpu.note == "the device is reserved for a virtual machine (vfio-pci)");
  CHECK(!gpu.readings.utilization_percent);
  CHECK(gpu.readings.utilization_percent.why == Absence::kNotSupported);
}

TEST_CASE("a suspended Intel card is left asleep") {
  const Roots roots = recorded("intel-arc");
  auto pci = system::scan_pci(roots);
  for (auto& card : pci) card.suspended = true;
  const model::Device gpu = read_devices(roots, pci).at(2);
  CHECK(gpu.health == Health::kAsleep);
  CHECK(!gpu.readings.clock_graphics_mhz);
  CHECK(gpu.readings.clock_graphics_mhz.why == Absence::kAsleep);
  CHECK(gpu.readings.utilization_percent.why == Absence::kAsleep);
}
