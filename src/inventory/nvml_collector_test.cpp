#include "inventory/nvml_collector.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace berth::inventory;
using berth::model::Absence;
using berth::model::Health;
using berth::system::PciDevice;

namespace {

PciDevice gpu(std::string address, bool suspended = false, std::string driver = "nvidia") {
  PciDevice device;
  device.address = std::move(address);
  device.vendor = 0x10de;
  device.device = 0x28e0;
  device.class_code = 0x030000;
  device.driver = std::move(driver);
  device.suspended = suspended;
  device.numa_node = 1;
  device.local_cpus = "0-15";
  return device;
}

frames::Device answer(std::uint32_t position, std::string address) {
  frames::Device frame;
  frame.position = position;
  frame.complete = true;
  frame.device.vendor_index = position;
  frame.device.name = "NVIDIA H100";
  frame.device.uuid = "GPU-" + address;
  frame.device.pci_address = std::move(address);
  frame.device.health = Health::kOk;
  frame.device.readings.temperature_celsius = 60.0;
  frame.processes.resize(1);
  frame.processes[0].host_pid = 100 + position;
  return frame;
}

struct Case {
  std::vector<PciDevice> gpus;
  std::vector<std::string> only;
  Sources sources{{}, "libnvidia-ml.so.1"};
  Options options = {};

  NvmlReport report(std::vector<frames::Frame> said, Ending ending = {}) {
    sources.roots.sys = "/nonexistent";
    Collector collector(gpus, only);
    for (frames::Frame& frame : said) collector.take(std::move(frame));
    return collector.report(sources, options, ending);
  }
};

}  // namespace

TEST_CASE("devices are sorted by bus address and have the bus's facts") {
  Case here{{gpu("0000:10:00.0"), gpu("0000:20:00.0")}, {}};
  const NvmlReport report =
      here.report({frames::Ready{0, 2, "580.1", "13.0"}, answer(0, "0000:20:00.0"),
                   answer(1, "0000:10:00.0"), frames::Done{}});
  CHECK(report.driver.state == "ok");
  CHECK(report.driver.version == "580.1");
  REQUIRE(report.devices.size() == 2);
  CHECK(report.devices[0].pci_address == "0000:10:00.0");
  CHECK(report.devices[0].vendor_index == 1U);
  CHECK(report.devices[0].kernel_driver == "nvidia");
  CHECK(report.devices[0].numa_node == 1);
  CHECK(report.devices[0].local_cpus == "0-15");
  REQUIRE(report.processes.size() == 2);
  CHECK(report.processes[0].host_pid == 100);
  CHECK(report.processes[0].device == 1);
  CHECK(report.processes[1].device == 0);
}

TEST_CASE("a device that did not answer is a row with its identity and no readings") {
  Case here{{gpu("0000:10:00.0"), gpu("0000:20:00.0"), gpu("0000:30:00.0")}, {}};
  frames::Device begun = answer(1, "0000:20:00.0");
  begun.complete = false;
  begun.processes.clear();
  const NvmlReport report =
      here.report({frames::Ready{0, 3, "580.1", "13.0"}, answer(0, "0000:10:00.0"), begun});
  CHECK(report.driver.state == "ok");
  REQUIRE(report.devices.size() == 3);
  CHECK(report.devices[0].health == Health::kOk);
  CHECK(report.devices[1].name == "NVIDIA H100");
  CHECK(report.devices[1].uuid == "GPU-0000:20:00.0");
  CHECK(report.devices[1].health == Health::kNoAnswer);
  CHECK(report.devices[1].readings.temperature_celsius.why == Absence::kNoAnswer);
  // The third device sent nothing. It gets the only remaining address.
  CHECK(report.devices[2].pci_address == "0000:30:00.0");
  CHECK(report.devices[2].health == Health::kNoAnswer);
  CHECK(report.devices[2].vendor_index == 2U);
}

TEST_CASE("silent devices get the remaining addresses in bus order") {
  Case here{{gpu("0000:10:00.0"), gpu("0000:20:00.0"), gpu("0000:30:00.0")}, {}};
  for (PciDevice& pci : here.gpus) pci.name = "GeForce RTX 3090";
  const NvmlReport nobody = here.report({frames::Ready{0, 3, "580.1", "13.0"}});
  REQUIRE(nobody.devices.size() == 3);
  CHECK(nobody.driver.state == "no answer");
  CHECK(nobody.driver.error_id == "E0313");
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(nobody.devices[i].pci_address == here.gpus[i].address);
    CHECK(nobody.devices[i].vendor_index == i);
    CHECK(nobody.devices[i].name == "GeForce RTX 3090");
    CHECK(nobody.devices[i].numa_node == 1);
    CHECK(nobody.devices[i].uuid.empty());
  }
  const NvmlReport one =
      here.report({frames::Ready{0, 3, "580.1", "13.0"}, answer(1, "0000:20:00.0")});
  REQUIRE(one.devices.size() == 3);
  CHECK(one.devices[0].vendor_index == 0U);
  CHECK(one.devices[1].name == "NVIDIA H100");
  CHECK(one.devices[2].vendor_index == 2U);
}

TEST_CASE("silent devices have no address if the assignment is uncertain") {
  Case here{{gpu("0000:10:00.0"), gpu("0000:20:00.0"), gpu("0000:30:00.0")}, {}};
  const auto without_address = [](const NvmlReport& report) {
    return std::count_if(report.devices.begin(), report.devices.end(),
                         [](const auto& device) { return device.pci_address.empty(); });
  };
  // The driver lists fewer devices than are on the bus, as in a container that has only some of
  // them.
  CHECK(without_address(here.report({frames::Ready{0, 2, "580.1", "13.0"}})) == 2);
  // The driver's order differs from PCI order, so two missing addresses cannot be assigned.
  CHECK(without_address(
            here.report({frames::Ready{0, 3, "580.1", "13.0"}, answer(0, "0000:20:00.0")})) == 2);
  // NVML does not count a GPU with another kernel driver.
  here.gpus[1].driver = "nouveau";
  CHECK(without_address(here.report({frames::Ready{0, 3, "580.1", "13.0"}})) == 3);
}

TEST_CASE("a sleeping device is described only from the bus") {
  Case here{{gpu("0000:10:00.0", true), gpu("0000:20:00.0")}, {"0000:20:00.0"}};
  const NvmlReport report = here.report(
      {frames::Ready{0, 1, "580.1", "13.0"}, answer(0, "0000:20:00.0"), frames::Done{}});
  REQUIRE(report.devices.size() == 2);
  CHECK(report.devices[0].health == Health::kAsleep);
  CHECK(report.devices[0].readings.memory_used_bytes.why == Absence::kAsleep);
  CHECK(report.devices[0].pci_id == 0x10de28e0U);
  CHECK(report.devices[1].health == Health::kOk);
  CHECK(report.processes.at(0).device == 1);
}

TEST_CASE("a GPU that the driver does not know when asked by address is not reported by it") {
  Case here{{gpu("0000:10:00.0", true), gpu("0000:20:00.0"), gpu("0000:30:00.0")},
            {"0000:20:00.0", "0000:30:00.0"}};
  frames::Device unknown;
  unknown.position = 1;
  unknown.complete = true;
  unknown.refused = 6;
  const NvmlReport report = here.report(
      {frames::Ready{0, 2, "580.1", "13.0"}, answer(0, "0000:20:00.0"), unknown, frames::Done{}});
  REQUIRE(report.devices.size() == 2);
  CHECK(report.devices[1].pci_address == "0000:20:00.0");
}

TEST_CASE("without a driver and without a GPU there is nothing to complain about") {
  Case here;
  CHECK(here.report({frames::Failed{"E0301", "", 0}}).driver.state == "none");
  CHECK(here.report({frames::Failed{"E0304", "", 9}}).driver.state == "none");
  CHECK(here.report({frames::Failed{"E0301", "", 0}}).driver.error_id.empty());
}

TEST_CASE("without a driver but with a GPU the error says what to do, and the GPU is there") {
  Case here{{gpu("0000:10:00.0", false, "")}, {}};
  const NvmlReport report = here.report({frames::Failed{"E0301", "", 0}});
  CHECK(report.driver.state == "error");
  CHECK(report.driver.error_id == "E0301");
  CHECK_FALSE(report.driver.message.empty());
  CHECK_FALSE(report.driver.hint.empty());
  REQUIRE(report.devices.size() == 1);
  CHECK(report.devices[0].health == Health::kNotChecked);
  CHECK_FALSE(report.devices[0].managed);
}

TEST_CASE("each way of failing has an identifier and a hint of its own") {
  Case here{{gpu("0000:10:00.0")}, {}};
  for (const char* id : {"E0301", "E0302", "E0303", "E0304", "E0305", "E0308", "E0309"}) {
    const NvmlReport report = here.report({frames::Failed{id, "detail", 999}});
    CHECK(report.driver.error_id == id);
    CHECK(report.driver.state == "error");
    CHECK_FALSE(report.driver.message.empty());
    CHECK_FALSE(report.driver.hint.empty());
  }
  CHECK(here.report({frames::Failed{"E9999", "", 1}}).driver.error_id == "E0309");
  CHECK(here.report({}, {.no_child = true}).driver.error_id == "E0312");
  CHECK(here.report({}, {.closed = true, .signal = 11}).driver.error_id == "E0306");
  CHECK(here.report({}, {.closed = true, .signal = 0}).driver.error_id == "E0310");
  CHECK(here.report({}).driver.error_id == "E0311");
  CHECK(here.report({frames::Loaded{}}).driver.error_id == "E0307");
  CHECK(here.report({frames::Loaded{}}).driver.state == "no answer");
  CHECK(here.report({frames::Loaded{}}).devices.at(0).health == Health::kNoAnswer);
}

TEST_CASE("after a crash, complete frames are kept") {
  Case here{{gpu("0000:10:00.0"), gpu("0000:20:00.0")}, {}};
  const NvmlReport report =
      here.report({frames::Ready{0, 2, "580.1", "13.0"}, answer(0, "0000:10:00.0")},
                  {.closed = true, .signal = 11});
  CHECK(report.driver.state == "error");
  CHECK(report.driver.error_id == "E0306");
  REQUIRE(report.devices.size() == 2);
  CHECK(report.devices[0].health == Health::kOk);
  CHECK(report.devices[1].health == Health::kNoAnswer);
}

TEST_CASE("frames for positions that do not exist, and a second beginning, change nothing") {
  Case here;
  const NvmlReport report = here.report(
      {answer(0, "0000:10:00.0"), frames::Ready{0, 1, "580.1", "13.0"},
       frames::Ready{0, 128, "evil", "13.0"}, answer(77, "0000:77:00.0"), frames::Done{}});
  REQUIRE(report.devices.size() == 1);
  CHECK(report.driver.version == "580.1");
  CHECK(report.devices[0].health == Health::kNoAnswer);
}

TEST_CASE("a process list that is refused leaves a note at the device") {
  Case here;
  frames::Device frame = answer(0, "0000:10:00.0");
  frame.no_process_list = Absence::kNoPermission;
  const NvmlReport report = here.report({frames::Ready{0, 1, "", ""}, frame, frames::Done{}});
  CHECK_FALSE(report.devices.at(0).note.empty());
}

TEST_CASE("a driver too slow to be asked for everything leaves a note at the device") {
  Case here;
  frames::Device frame = answer(0, "0000:10:00.0");
  frame.late = true;
  const NvmlReport report = here.report({frames::Ready{0, 1, "", ""}, frame, frames::Done{}});
  CHECK(report.devices.at(0).note.find("too slowly") != std::string::npos);
  CHECK(report.devices.at(0).health == Health::kOk);
}

TEST_CASE("GPUs of virtual machines and other functions of the card are not queried") {
  PciDevice sound = gpu("0000:10:00.1");
  sound.class_code = 0x040300;
  PciDevice other = gpu("0000:30:00.0");
  other.vendor = 0x1002;
  const auto gpus =
      nvidia_gpus({gpu("0000:10:00.0"), sound, gpu("0000:20:00.0", false, "vfio-pci"), other});
  REQUIRE(gpus.size() == 1);
  CHECK(gpus[0].address == "0000:10:00.0");
}

TEST_CASE("only if a GPU sleeps are the others queried by address") {
  CHECK(awake_beside_asleep({gpu("a"), gpu("b")}).empty());
  CHECK(awake_beside_asleep({gpu("a", true), gpu("b"), gpu("c", false, "nouveau")}) ==
        std::vector<std::string>{"b"});
  CHECK(all_asleep({gpu("a", true), gpu("b", true)}));
  CHECK_FALSE(all_asleep({}));
}

TEST_CASE("the load of a Jetson comes from the kernel, because NVML does not know it") {
  char folder[] = "/tmp/berth-jetson-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string sys = folder;
  mkdir((sys + "/devices").c_str(), 0700);
  mkdir((sys + "/devices/gpu.0").c_str(), 0700);
  const std::string file = sys + "/devices/gpu.0/load";
  for (const auto& [content, known] : {std::pair("374\n", true), std::pair("9999\n", false)}) {
    std::FILE* out = std::fopen(file.c_str(), "w");
    REQUIRE(out != nullptr);
    std::fputs(content, out);
    std::fclose(out);
    Collector collector({}, {});
    collector.take(frames::Ready{0, 1, "", "12.6"});
    frames::Device frame = answer(0, "");
    frame.device.readings.utilization_percent = Absence::kNotSupported;
    collector.take(std::move(frame));
    Sources sources;
    sources.roots.sys = sys;
    const NvmlReport report = collector.report(sources, {}, {});
    const auto& load = report.devices.at(0).readings.utilization_percent;
    CHECK(load.value.has_value() == known);
    if (known) CHECK(*load == doctest::Approx(37.4));
  }
  unlink(file.c_str());
  rmdir((sys + "/devices/gpu.0").c_str());
  rmdir((sys + "/devices").c_str());
  rmdir(folder);
}

TEST_CASE("a GPU that the driver no longer lists keeps its row, unless we may not see it") {
  char folder[] = "/tmp/berth-lost-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string root = folder;
  const auto put = [&](const std::string& path, const std::string& words) {
    REQUIRE(std::system(("mkdir -p $(dirname " + root + path + ")").c_str()) == 0);
    std::FILE* file = std::fopen((root + path).c_str(), "w");
    REQUIRE(file != nullptr);
    std::fputs(words.c_str(), file);
    std::fclose(file);
  };
  put("/proc/driver/nvidia/gpus/0000:20:00.0/information",
      "Model: \t NVIDIA X\nGPU UUID: \t GPU-lost\nDevice Minor: \t 1\n");
  Case here{{gpu("0000:10:00.0"), gpu("0000:20:00.0"), gpu("0000:30:00.0")}, {}};
  here.sources.roots.proc = root + "/proc";
  here.sources.roots.dev = root + "/dev";
  const auto look = [&] {
    return here.report({frames::Ready{0, 2, "580.1", "13.0"}, answer(0, "0000:10:00.0"),
                        answer(1, "0000:30:00.0"), frames::Done{}});
  };
  // This process cannot open the node of the lost GPU, so the GPU is left out.
  CHECK(look().devices.size() == 2);
  put("/dev/nvidia1", "");
  const NvmlReport report = look();
  REQUIRE(report.devices.size() == 3);
  CHECK(report.devices[1].pci_address == "0000:20:00.0");
  CHECK(report.devices[1].health == Health::kLost);
  CHECK(report.devices[1].uuid == "GPU-lost");
  CHECK(report.devices[1].name == "NVIDIA X");
  frames::Device lost = answer(1, "");
  lost.device.uuid = lost.device.name = "";
  lost.device.health = Health::kLost;
  const NvmlReport listed =
      here.report({frames::Ready{0, 3, "580.1", "13.0"}, answer(0, "0000:10:00.0"), lost,
                   answer(2, "0000:30:00.0"), frames::Done{}});
  REQUIRE(listed.devices.size() == 3);
  CHECK(listed.devices[1].health == Health::kLost);
  CHECK(listed.devices[1].uuid == "GPU-lost");
  CHECK(listed.devices[1].name == "NVIDIA X");
  CHECK(report.devices[2].pci_address == "0000:30:00.0");
  CHECK(std::system(("rm -r " + root).c_str()) == 0);
}
