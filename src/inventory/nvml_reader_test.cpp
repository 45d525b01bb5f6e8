// Tests the forked reader with libraries that work, fail, crash and hang (tests/fake_nvml).
#include "inventory/nvml_reader.hpp"

#include <dirent.h>
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>

#include "base/file.hpp"
#include "vendor/nvml/library.hpp"

using namespace berth::inventory;
using namespace std::chrono_literals;
using berth::model::Absence;
using berth::model::Health;
using berth::system::PciDevice;
using Clock = std::chrono::steady_clock;

namespace {

Sources sources_with(const std::string& name) {
  Sources sources;
  sources.nvml_library = std::string(BERTH_FAKE_NVML) + "/libfake_" + name + ".so";
  sources.roots.sys = "/nonexistent";
  return sources;
}

PciDevice gpu(unsigned bus, bool suspended = false) {
  PciDevice device;
  device.address = "0000:" + std::to_string(bus) + ":00.0";
  device.vendor = 0x10de;
  device.class_code = 0x030200;
  device.driver = "nvidia";
  device.suspended = suspended;
  return device;
}

NvmlReport look(const Sources& sources, const Options& options = {},
                std::vector<PciDevice> pci = {}) {
  NvmlReader reader(sources, options, std::move(pci));
  return reader.finish();
}

std::size_t open_descriptors() {
  return berth::list_folder("/proc/self/fd").size();
}
bool has_children() {
  return waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD;
}

}  // namespace

TEST_CASE("a healthy library is read through the child") {
  const std::size_t before = open_descriptors();
  const NvmlReport report = look(sources_with("healthy"));
  CHECK(report.driver.state == "ok");
  CHECK(report.driver.version == "580.95.05");
  CHECK(report.driver.cuda_version == "13.0");
  REQUIRE(report.devices.size() == 8);
  for (std::size_t i = 0; i < 8; ++i) {
    const auto& device = report.devices[i];
    CHECK(device.vendor_index == i);
    CHECK(device.name == "NVIDIA Fake 1000");
    CHECK(device.pci_id == 0x10de2330U);
    CHECK(*device.readings.memory_used_bytes == (i + 1) << 30U);
    CHECK(*device.readings.temperature_celsius == 40.0 + static_cast<double>(i));
    CHECK(device.readings.power_milliwatts.why == Absence::kNotSupported);
    CHECK(device.health == Health::kOk);
  }
  CHECK(report.devices[7].pci_address == "0000:17:00.0");
  CHECK(report.processes.size() == 24);
  CHECK(open_descriptors() == before);
  CHECK_FALSE(has_children());
}

TEST_CASE("records of 16, 24 and 32 bytes give the same processes") {
  for (const char* name : {"stride_16", "one", "stride_32"}) {
    CAPTURE(name);
    const NvmlReport report = look(sources_with(name));
    REQUIRE(report.processes.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(report.processes[i].host_pid == static_cast<std::int64_t>(1000 + i));
      CHECK(*report.processes[i].memory_bytes == (i + 1) << 28U);
      CHECK_FALSE(report.processes[i].pid);
    }
  }
}

TEST_CASE("processes are not read if they are not requested") {
  Options options;
  options.processes = false;
  const NvmlReport report = look(sources_with("one"), options);
  CHECK(report.processes.empty());
  CHECK(report.devices.at(0).note.empty());
}

TEST_CASE("one hung device is a row without an answer, and the others are fresh") {
  const auto start = Clock::now();
  Options options;
  options.device_deadline = 200ms;
  const NvmlReport report = look(sources_with("hang_device"), options);
  CHECK(Clock::now() - start < 2s);
  CHECK(report.driver.state == "ok");
  REQUIRE(report.devices.size() == 8);
  CHECK(report.devices[3].health == Health::kNoAnswer);
  CHECK(report.devices[3].name == "NVIDIA Fake 1000");
  CHECK(report.devices[3].pci_address == "0000:13:00.0");
  CHECK(report.devices[3].readings.temperature_celsius.why == Absence::kNoAnswer);
  CHECK(report.devices[4].health == Health::kOk);
  CHECK_FALSE(has_children());
}

TEST_CASE("where the only device hangs the driver has no answer either") {
  Options options;
  options.device_deadline = 100ms;
  const NvmlReport report = look(sources_with("hang_only_device"), options);
  CHECK(report.driver.state == "no answer");
  CHECK(report.driver.error_id == "E0313");
  CHECK(report.devices.at(0).health == Health::kNoAnswer);
}

TEST_CASE("hanging while loading and while initialising have different messages, each once") {
  for (const auto& one : {std::pair("hang_load", "E0311"), std::pair("hang_init", "E0307")}) {
    const char* const name = one.first;  // clang 14 cannot capture a structured binding
    const char* const id = one.second;
    CAPTURE(name);
    int told = 0;
    Options options;
    options.initialisation_deadline = 1300ms;
    options.on_slow = [&told](std::string_view sentence) {
      ++told;
      CHECK_FALSE(sentence.empty());
    };
    const auto start = Clock::now();
    const NvmlReport report = look(sources_with(name), options, {gpu(10)});
    CHECK(Clock::now() - start < 4s);
    CHECK(told == 1);
    CHECK(report.driver.state == "no answer");
    CHECK(report.driver.error_id == id);
    CHECK(report.devices.at(0).health == Health::kNoAnswer);
    CHECK_FALSE(has_children());
  }
}

TEST_CASE("libraries that cannot be used say why") {
  const std::pair<const char*, const char*> cases[] = {
      {"absent", "E0301"},     {"garbage", "E0302"},   {"missing", "E0303"},
      {"not_loaded", "E0304"}, {"mismatch", "E0305"},  {"no_permission", "E0308"},
      {"unknown", "E0309"},    {"crash_init", "E0306"}};
  for (const auto& one : cases) {
    const char* const name = one.first;
    const char* const id = one.second;
    CAPTURE(name);
    const NvmlReport report = look(sources_with(name), {}, {gpu(10)});
    CHECK(report.driver.state == "error");
    CHECK(report.driver.error_id == id);
    CHECK_FALSE(report.driver.message.empty());
    CHECK_FALSE(report.driver.hint.empty());
    REQUIRE(report.devices.size() == 1);
    CHECK(report.devices[0].health == Health::kNotChecked);
    CHECK_FALSE(has_children());
  }
}

TEST_CASE("no library and no GPU is a machine without NVIDIA and no error") {
  const NvmlReport report = look(sources_with("absent"));
  CHECK(report.driver.state == "none");
  CHECK(report.driver.error_id.empty());
  CHECK(report.devices.empty());
  CHECK(look(sources_with("not_loaded")).driver.state == "none");
}

TEST_CASE("an invalid library is an error even if no GPU is found") {
  CHECK(look(sources_with("garbage")).driver.error_id == "E0302");
}

TEST_CASE("with an empty name the driver is not queried") {
  Sources sources = sources_with("healthy");
  sources.nvml_library = "";
  const NvmlReport report = look(sources, {}, {gpu(10)});
  CHECK(report.driver.state == "none");
  CHECK(report.devices.at(0).readings.memory_used_bytes.why == Absence::kNotAsked);
}

TEST_CASE("a driver crash in one device does not affect the others") {
  const NvmlReport report = look(sources_with("crash_device"));
  CHECK(report.driver.state == "error");
  CHECK(report.driver.error_id == "E0306");
  REQUIRE(report.devices.size() == 8);
  for (const auto& device : report.devices) {
    CAPTURE(device.vendor_index.value_or(99));
    const bool sick = device.vendor_index == 3U;
    CHECK(device.health == (sick ? Health::kNoAnswer : Health::kOk));
    CHECK(device.readings.memory_used_bytes.value.has_value() == !sick);
  }
  CHECK(report.processes.size() == 21);
  CHECK_FALSE(has_children());
}

TEST_CASE("a driver that keeps crashing is given up") {
  const auto start = Clock::now();
  const NvmlReport report = look(sources_with("crash_second"));
  CHECK(Clock::now() - start < 4s);
  CHECK(report.driver.error_id == "E0306");
  REQUIRE(report.devices.size() == 8);
  const auto of = [&report](std::uint32_t index) {
    return std::find_if(report.devices.begin(), report.devices.end(),
                        [index](const auto& device) { return device.vendor_index == index; });
  };
  CHECK(of(0)->health == Health::kOk);
  CHECK(of(1)->health == Health::kNoAnswer);
  CHECK_FALSE(has_children());
}

TEST_CASE(
    "a driver that is silent after its initialisation has no answer within the devices' time") {
  Options options;
  options.device_deadline = 200ms;
  options.initialisation_deadline = 20s;
  const auto start = Clock::now();
  const NvmlReport report = look(sources_with("hang_count"), options, {gpu(10), gpu(11)});
  CHECK(Clock::now() - start < 4s);
  CHECK(report.driver.state == "no answer");
  CHECK(report.driver.error_id == "E0313");
  REQUIRE(report.devices.size() == 2);
  CHECK(report.devices[1].pci_address == "0000:11:00.0");
  CHECK(report.devices[1].health == Health::kNoAnswer);
}

TEST_CASE("a lost and a refused device keep their rows") {
  std::vector<PciDevice> bus;
  for (unsigned i = 0; i < 8; ++i) bus.push_back(gpu(10 + i));
  const NvmlReport lost = look(sources_with("lost_device"), {}, bus);
  REQUIRE(lost.devices.size() == 8);
  CHECK(lost.devices[3].health == Health::kLost);
  CHECK(lost.devices[3].pci_address == "0000:13:00.0");
  CHECK(lost.devices[3].readings.temperature_celsius.why == Absence::kLost);
  const NvmlReport refused = look(sources_with("refused_device"), {}, bus);
  CHECK(refused.devices.at(3).health == Health::kDegraded);
  CHECK(refused.devices.at(3).health_reasons == std::vector<std::string>{"nvml:999"});
  CHECK(refused.driver.state == "ok");
}

TEST_CASE("a sleeping GPU is not touched while the ones awake are read") {
  // This library crashes if it attaches GPUs at its initialization, if a device is requested by
  // index, or if a device with an odd bus number is requested.
  const NvmlReport report =
      look(sources_with("sleepers"), {}, {gpu(10), gpu(11, true), gpu(12), gpu(13, true)});
  CHECK(report.driver.state == "ok");
  REQUIRE(report.devices.size() == 4);
  CHECK(report.devices[0].health == Health::kOk);
  CHECK(report.devices[0].vendor_index == 0U);
  CHECK(report.devices[1].health == Health::kAsleep);
  CHECK(report.devices[1].readings.memory_used_bytes.why == Absence::kAsleep);
  CHECK(report.devices[2].vendor_index == 2U);
  CHECK(report.devices[3].health == Health::kAsleep);
}

TEST_CASE("where all GPUs sleep the driver is not opened at all") {
  const NvmlReport report = look(sources_with("crash_init"), {}, {gpu(10, true)});
  CHECK(report.driver.state == "ok");
  CHECK(report.devices.at(0).health == Health::kAsleep);
}

TEST_CASE("a snapshot that finishes late still has the answers that came in time") {
  NvmlReader reader(sources_with("healthy"), {}, {});
  poll(nullptr, 0, 900);  // longer than the deadline of a device (700 ms)
  const NvmlReport report = reader.finish();
  CHECK(report.driver.state == "ok");
  REQUIRE(report.devices.size() == 8);
  CHECK(report.devices[7].health == Health::kOk);
}

TEST_CASE("a snapshot that is never finished leaves nothing behind") {
  const std::size_t before = open_descriptors();
  { NvmlReader reader(sources_with("hang_init"), {}, {}); }
  CHECK(open_descriptors() == before);
  CHECK_FALSE(has_children());
}

TEST_CASE("the sampler sends changing readings of its devices, and ends with its owner") {
  const std::string uuid = "GPU-00000002-fake-fake-fake-000000000000";
  {
    NvmlSampler sampler(sources_with("healthy"), {uuid}, 20ms);
    std::size_t got = 0;
    const auto start = Clock::now();
    while (got < 5 && Clock::now() - start < 5s) {
      pollfd ready{sampler.descriptor(), POLLIN, 0};
      REQUIRE(poll(&ready, 1, 5000) == 1);
      for (const DeviceSample& sample : sampler.take()) {
        ++got;
        CHECK(sample.device.uuid == uuid);
        CHECK(*sample.device.readings.utilization_percent == 20);
        CHECK(*sample.device.readings.energy_millijoules == 123456);
        CHECK(sample.unix_milliseconds > 0);
        CHECK(sample.processes.size() == 3);
      }
    }
    CHECK(got >= 5);
    CHECK(Clock::now() - start >= 60ms);
    CHECK(sampler.take().size() <= 1);
  }
  CHECK_FALSE(has_children());
}

TEST_CASE("a sampler gives one more sample when it is asked, long before its interval is over") {
  const std::string uuid = "GPU-00000002-fake-fake-fake-000000000000";
  NvmlSampler sampler(sources_with("healthy"), {uuid}, std::chrono::hours(1));
  std::size_t got = 0;
  const auto take_one = [&] {
    const std::size_t before = got;
    const auto start = Clock::now();
    while (got == before && Clock::now() - start < 20s) {
      pollfd ready{sampler.descriptor(), POLLIN, 0};
      poll(&ready, 1, 1000);
      got += sampler.take().size();
    }
  };
  take_one();
  REQUIRE(got == 1);
  sampler.ask_now();
  take_one();
  CHECK(got == 2);
}

TEST_CASE(
    "a sampler whose device hangs stays silent, and one without devices or driver does nothing") {
  NvmlSampler hung(sources_with("hang_only_device"), {"GPU-00000000-fake-fake-fake-000000000000"},
                   20ms);
  pollfd ready{hung.descriptor(), POLLIN, 0};
  // Other frames may arrive before the first sample, so the descriptor may be readable without a
  // sample.
  for (int i = 0; i < 3; ++i) {
    poll(&ready, 1, 50);
    CHECK(hung.take().empty());
  }
  NvmlSampler nothing(sources_with("healthy"), {}, 20ms);
  CHECK(nothing.descriptor() == -1);
  CHECK(nothing.take().empty());
  NvmlSampler absent(sources_with("absent"), {"GPU-1"}, 20ms);
  ready.fd = absent.descriptor();
  for (int i = 0; i < 10 && absent.descriptor() >= 0; ++i) {
    poll(&ready, 1, 200);
    CHECK(absent.take().empty());
  }
  CHECK(absent.descriptor() == -1);
}

TEST_CASE("every function in the list is bound by its name, or shown as missing") {
  const auto rows = berth::nvml::bindings(sources_with("healthy").nvml_library);
  const auto row = [&rows](std::string_view function) {
    const auto found = std::find_if(rows.begin(), rows.end(), [function](const auto& binding) {
      return binding.function == function;
    });
    REQUIRE(found != rows.end());
    return *found;
  };
  CHECK(row("Init").found == "nvmlInit_v2");
  CHECK(row("Init").required);
  CHECK(row("DeviceGetComputeRunningProcesses").found == "nvmlDeviceGetComputeRunningProcesses_v3");
  CHECK(row("DeviceGetPowerUsage").found.empty());
  CHECK_FALSE(row("DeviceGetPowerUsage").required);
  CHECK(berth::nvml::bindings(sources_with("garbage").nvml_library).empty());
}
