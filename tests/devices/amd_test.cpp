#include "vendor/amd/amd.hpp"

#include <doctest/doctest.h>

#include <string>

#include "recorded.hpp"
#include "system/pci.hpp"

using namespace berth;
using namespace berth::amd;
using model::Absence;
using model::Health;

namespace {
std::vector<model::Device> look(const std::string& machine) {
  const Roots roots = recorded(machine);
  return read_devices(roots, system::scan_pci(roots));
}
}  // namespace

TEST_CASE("a Radeon card with its sensors, clocks and the link the driver reports") {
  const auto devices = look("amd-7900xtx");
  REQUIRE(devices.size() == 1);
  const model::Device& gpu = devices[0];
  CHECK(gpu.name == "AMD Radeon RX 7900 XTX");
  CHECK(gpu.vendor == model::Vendor::kAmd);
  CHECK(gpu.uuid == "GPU-4a7d3c1f0be28d96");
  CHECK(gpu.architecture == "gfx1100");
  CHECK(gpu.vendor_index == 0U);
  CHECK(gpu.minor_number == 128U);
  CHECK(gpu.pci_address == "0000:03:00.0");
  CHECK(!gpu.numa_node);
  CHECK(gpu.managed);
  CHECK(!gpu.memory_unified);
  CHECK(gpu.health == Health::kOk);
  const auto& r = gpu.readings;
  CHECK(r.memory_total_bytes.value == 25753026560ULL);
  CHECK(r.memory_used_bytes.value == 1883164672ULL);
  CHECK(r.utilization_percent.value == 37.0);
  CHECK(r.memory_utilization_percent.value == 12.0);
  CHECK(r.temperature_celsius.value == 46.0);
  CHECK(r.power_milliwatts.value == 187000ULL);
  CHECK(r.power_limit_milliwatts.value == 339000ULL);
  CHECK(r.fan_percent.value == 38.0);
  CHECK(r.clock_graphics_mhz.value == 2482ULL);
  CHECK(r.clock_graphics_max_mhz.value == 2526ULL);
  CHECK(r.clock_memory_mhz.value == 1249ULL);
  CHECK(r.pcie_generation.value == 3ULL);
  CHECK(r.pcie_generation_max.value == 4ULL);
  CHECK(r.pcie_width.value == 8ULL);
  CHECK(!r.ecc_corrected);
  CHECK(r.ecc_corrected.why == Absence::kNotSupported);
  CHECK(!r.pcie_rx_bytes_per_second);
}

TEST_CASE("data-centre accelerators with memory error counts and partitions") {
  const auto devices = look("amd-mi300x");
  REQUIRE(devices.size() == 2);
  CHECK(devices[0].name == "AMD Instinct MI300X OAM");
  CHECK(devices[0].architecture == "gfx942");
  CHECK(devices[0].numa_node == 0);
  CHECK(devices[0].health == Health::kOk);
  CHECK(devices[0].readings.ecc_corrected.value == 7ULL);
  CHECK(devices[0].readings.ecc_uncorrected.value == 0ULL);
  CHECK(devices[0].readings.temperature_celsius.value == 61.0);
  CHECK(devices[0].note == "compute partition mode CPX: ROCm sees 8 devices");
  CHECK(devices[1].vendor_index == 8U);
  CHECK(devices[1].local_cpus == "48-95");
  CHECK(devices[1].health == Health::kDegraded);
  CHECK(devices[1].health_reasons == std::vector<std::string>{"ecc_uncorrected"});
  CHECK(devices[1].note.empty());
}

TEST_CASE("a sleeping card is named and not woken, integrated graphics share host memory") {
  const auto devices = look("amd-laptop-asleep");
  REQUIRE(devices.size() == 2);
  const model::Device& asleep = devices[0];
  CHECK(asleep.health == Health::kAsleep);
  CHECK(asleep.managed);
  CHECK(asleep.uuid == "GPU-0123456789abcdef");
  CHECK(asleep.architecture == "gfx1032");
  int present = 0;
  model::for_each_reading(asleep.readings, [&](std::string_view, const auto& reading) {
    present += reading ? 1 : 0;
    CHECK(reading.why == Absence::kAsleep);
  });
  CHECK(present == 0);
  const model::Device& apu = devices[1];
  CHECK(apu.memory_unified);
  CHECK(apu.health == Health::kNotChecked);
  CHECK(apu.readings.memory_total_bytes.value == 536870912ULL + 8000000000ULL);
  CHECK(apu.readings.memory_used_bytes.value == 300000000ULL);
  CHECK(apu.readings.power_milliwatts.value == 9000ULL);
  CHECK(!apu.readings.power_limit_milliwatts);
}

TEST_CASE("a card without its driver is listed and not managed") {
  model::PciDevice pci;
  pci.address = "0000:09:00.0";
  pci.vendor = 0x1002;
  pci.device = 0xeeee;
  pci.class_code = 0x030000;
  pci.driver = "vfio-pci";
  auto devices = read_devices({}, {pci});
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].name == "AMD GPU eeee");
  CHECK(!devices[0].managed);
  CHECK(!devices[0].note.empty());
  pci.class_code = 0x040300;
  CHECK(read_devices({}, {pci}).empty());
}
