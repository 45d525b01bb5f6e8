#include "inventory/sysfs_sampler.hpp"

#include <doctest/doctest.h>
#include <test_paths.hpp>

#include <string>

#include "system/temporary_tree.hpp"

using namespace berth;
using namespace berth::inventory;
using model::Absence;

namespace {

Sources recorded(const std::string& root) {
  Sources sources;
  sources.roots = {root + "/proc", root + "/sys", root + "/dev", root + "/etc", root + "/proc"};
  sources.nvml_library.clear();
  sources.opencl_library.clear();
  return sources;
}

std::string machine(const std::string& name) {
  return std::string(BERTH_TEST_MACHINES) + "/" + name;
}

std::vector<DeviceSample> samples_of(const std::string& name,
                                     const std::vector<std::int64_t>& pids = {}) {
  const Sources sources = recorded(machine(name));
  return SysfsSampler(sources, observe(sources, {}).devices).take(pids);
}

}  // namespace

TEST_CASE("a Radeon card has utilization and power, from which energy is computed") {
  const auto samples = samples_of("amd-7900xtx");
  REQUIRE(samples.size() == 1);
  const auto whole = observe(recorded(machine("amd-7900xtx")), {}).devices.at(0).readings;
  const auto& readings = samples[0].device.readings;
  REQUIRE(readings.utilization_percent);
  CHECK(readings.utilization_percent.value == whole.utilization_percent.value);
  CHECK(readings.power_milliwatts.value == whole.power_milliwatts.value);
  CHECK(readings.energy_millijoules.why == Absence::kNotSupported);
  CHECK(samples[0].device.pci_address == "0000:03:00.0");
  CHECK(samples[0].unix_milliseconds > 0);
}

TEST_CASE("an Arc card has energy, but sysfs has no utilization for it") {
  const auto samples = samples_of("intel-arc");
  REQUIRE(samples.size() == 4);
  CHECK(samples[0].device.readings.energy_millijoules.why == Absence::kNotSupported);
  CHECK(samples[1].device.readings.energy_millijoules.value == 123456789ULL);
  for (const DeviceSample& one : samples) CHECK_FALSE(one.device.readings.utilization_percent);
  CHECK(samples[1].device.readings.utilization_percent.why == Absence::kNotSupported);
}

TEST_CASE("a card that sleeps is not touched") {
  bool found = false;
  for (const DeviceSample& one : samples_of("amd-laptop-asleep")) {
    if (one.device.pci_address != "0000:03:00.0") continue;
    found = true;
    CHECK(one.device.readings.utilization_percent.why == Absence::kAsleep);
    CHECK(one.device.readings.power_milliwatts.why == Absence::kAsleep);
  }
  CHECK(found);
}

TEST_CASE("only requested processes are read") {
  const system::TemporaryTree tree;
  const auto client = [&](int pid, const std::string& kib) {
    tree.put("proc/" + std::to_string(pid) + "/fdinfo/5",
             "drm-driver:\tamdgpu\ndrm-client-id:\t" + std::to_string(pid) +
                 "\ndrm-pdev:\t0000:03:00.0\ndrm-resident-vram:\t" + kib + " KiB\n");
  };
  client(71, "1024");
  client(72, "4096");
  Sources sources = recorded(machine("amd-7900xtx"));
  const auto devices = observe(sources, {}).devices;
  sources.roots.drm_proc = tree.path + "/proc";
  const auto samples = SysfsSampler(sources, devices).take({72, 99});
  REQUIRE(samples.size() == 1);
  REQUIRE(samples[0].processes.size() == 1);
  CHECK(samples[0].processes[0].pid == 72);
  CHECK(samples[0].processes[0].memory_bytes.value == 4ULL << 20);
}

TEST_CASE("NVIDIA's devices and the CPU are not sampled") {
  const Sources sources = recorded(machine("no-such-machine"));
  const SysfsSampler sampler(sources, observe(sources, {}).devices);
  CHECK(sampler.empty());
  CHECK(sampler.take({1}).empty());
}
