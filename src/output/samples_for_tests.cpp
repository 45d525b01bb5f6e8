#include "output/samples_for_tests.hpp"

namespace berth::output {
namespace {

using namespace berth::model;  // test data only

constexpr std::uint64_t kGiB = 1ULL << 30U;
constexpr std::uint64_t kMiB = 1ULL << 20U;

std::uint64_t gib(double amount) {
  return static_cast<std::uint64_t>(amount * double{kGiB});
}

Snapshot machine(int cores, int usable, double memory_gib) {
  Snapshot snapshot;
  snapshot.unix_milliseconds = 1'789'000'000'123;
  snapshot.host.hostname = "node1";
  snapshot.host.kernel = "6.1.0";
  snapshot.host.cpu_model = "Intel(R) Xeon(R) Platinum 8480C CPU @ 2.00GHz";
  snapshot.host.cpu.affinity = "0-" + std::to_string(cores - 1);
  snapshot.host.cpu.cores_total = cores;
  snapshot.host.cpu.cores_affinity = cores;
  snapshot.host.cpu.cores_usable = usable;
  snapshot.host.cpu.memory_total_bytes = gib(memory_gib);
  snapshot.host.cpu.memory_available_bytes = gib(memory_gib * 0.75);
  return snapshot;
}

void driver(Snapshot& snapshot) {
  snapshot.driver = {"580.95.05", "13.0", "ok", "", "", ""};
}

Device gpu(int index, const std::string& name, double total, double used, double use) {
  Device device;
  device.index = index;
  device.vendor_index = static_cast<std::uint32_t>(index);
  device.vendor = Vendor::kNvidia;
  device.vendor_name = "NVIDIA";
  device.name = name;
  device.uuid = "GPU-" + std::to_string(10000000 + index) + "-aaaa-bbbb-cccc-000000000000";
  device.pci_address = "0000:" + std::to_string(10 + index) + ":00.0";
  device.pci_id = 0x10DE2330U;
  device.kernel_driver = "nvidia";
  device.numa_node = index / 4;
  device.local_cpus = index < 4 ? "0-31" : "32-63";
  device.architecture = "hopper";
  device.compute_capability = "9.0";
  device.compute_mode = "default";
  device.persistence_mode = true;
  device.health = Health::kOk;
  DeviceReadings& readings = device.readings;
  set_all_absent(readings, Absence::kNotSupported);
  readings.memory_total_bytes = gib(total);
  readings.memory_used_bytes = gib(used);
  readings.utilization_percent = use;
  readings.temperature_celsius = 31 + use * 0.4;
  readings.power_milliwatts = static_cast<std::uint64_t>(68'000 + use * 6000);
  readings.power_limit_milliwatts = std::uint64_t{700'000};
  readings.energy_millijoules = std::uint64_t{123'456'789};
  readings.clock_sm_mhz = std::uint64_t{use > 0 ? 1980U : 345U};
  readings.clock_graphics_mhz = readings.clock_sm_mhz;
  readings.pcie_generation = std::uint64_t{5};
  readings.pcie_generation_max = std::uint64_t{5};
  readings.pcie_width = std::uint64_t{16};
  readings.pcie_width_max = std::uint64_t{16};
  readings.pcie_rx_bytes_per_second = Absence::kNotAsked;
  readings.pcie_tx_bytes_per_second = Absence::kNotAsked;
  return device;
}

Device cpu(const Snapshot& snapshot) {
  Device device;
  device.index = static_cast<int>(snapshot.devices.size());
  device.kind = DeviceKind::kCpu;
  device.vendor_name = "Intel";
  device.name = snapshot.host.cpu_model;
  device.memory_unified = true;
  device.health = Health::kOk;
  set_all_absent(device.readings, Absence::kNotSupported);
  device.readings.utilization_percent = Absence::kNeedsTwoReadings;
  device.readings.memory_total_bytes = snapshot.host.cpu.memory_total_bytes;
  device.readings.memory_used_bytes = snapshot.host.cpu.memory_total_bytes / 4;
  return device;
}

DeviceProcess process(int device, std::int64_t pid, const std::string& user, double memory,
                      const std::string& command) {
  DeviceProcess one;
  one.device = device;
  one.pid = pid;
  one.host_pid = pid;
  one.user = user;
  one.uid = user == "lin" ? 1000U : 1001U;
  one.kind.compute = true;
  one.memory_bytes = gib(memory);
  one.sm_percent = 90.0;
  one.encoder_percent = Absence::kNotSupported;
  one.decoder_percent = Absence::kNotSupported;
  one.state = "R";
  one.cpu_percent = 104.0;
  one.rss_bytes = gib(3.5);
  one.age_seconds = 8040.0;
  one.command = command;
  return one;
}

Snapshot eight_busy() {
  Snapshot snapshot = machine(64, 40, 1945);
  driver(snapshot);
  for (int i = 0; i < 8; ++i) {
    const bool busy = i < 4;
    snapshot.devices.push_back(
        gpu(i, "NVIDIA H100 80GB HBM3", 79.6, busy ? 61.2 + i : 0.0, busy ? 92 + i : 0));
    if (!busy) continue;
    snapshot.devices.back().throttle_reasons = {"sw_power_cap"};
    snapshot.processes.push_back(
        process(i, 4100 + i, i == 3 ? "zhao" : "lin", 60.0 + i,
                "python train.py --model llama --data /data/web --steps 100000"));
  }
  snapshot.processes.insert(snapshot.processes.begin() + 1,
                            process(0, 5200, "zhao", 0.5, "jupyter kernel"));
  snapshot.devices.push_back(cpu(snapshot));
  return snapshot;
}

Snapshot nothing() {
  Snapshot snapshot = machine(2, 2, 31.2);
  snapshot.devices.push_back(cpu(snapshot));
  return snapshot;
}

Snapshot broken_driver() {
  Snapshot snapshot = machine(16, 4, 62);
  snapshot.host.container = "docker";
  snapshot.driver = {"",
                     "",
                     "error",
                     "E0301",
                     "an NVIDIA GPU is on the bus, but the driver's library is not there",
                     "docker run --gpus all IMAGE"};
  Device seen = gpu(0, "NVIDIA A100-SXM4-80GB", 0, 0, 0);
  seen.uuid = "";
  seen.vendor_index.reset();
  seen.managed = false;
  seen.health = Health::kNotChecked;
  set_all_absent(seen.readings, Absence::kNotAsked);
  snapshot.devices.push_back(seen);
  snapshot.devices.push_back(cpu(snapshot));
  return snapshot;
}

Snapshot mig() {
  Snapshot snapshot = machine(128, 128, 1007);
  driver(snapshot);
  snapshot.devices.push_back(gpu(0, "NVIDIA A100-SXM4-40GB", 39.6, 12.4, 0));
  Device& parent = snapshot.devices.back();
  parent.mig_enabled = true;
  parent.readings.utilization_percent = Absence::kNotSupported;
  for (std::uint32_t i = 0; i < 3; ++i) {
    Partition part;
    part.index = i;
    part.name = i == 0 ? "MIG 3g.20gb" : "MIG 1g.5gb";
    part.uuid = "MIG-0000000" + std::to_string(i) + "-1111-2222-3333-444444444444";
    part.gpu_instance = i + 1;
    part.compute_instance = 0;
    part.memory_total_bytes = gib(i == 0 ? 19.6 : 4.75);
    part.memory_used_bytes = i == 0 ? gib(12.0) : 12 * kMiB;
    part.utilization_percent = Absence::kNotSupported;
    parent.partitions.push_back(part);
  }
  snapshot.processes.push_back(process(0, 777, "lin", 11.9, "python serve.py"));
  snapshot.processes.back().partition_uuid = parent.partitions[0].uuid;
  snapshot.processes.back().sm_percent = Absence::kNotSupported;
  snapshot.processes.back().job = 7;
  snapshot.leases = {{{7, "lin", parent.partitions[0].uuid, 8ULL << 30U},
                      {9, "chen", parent.partitions[1].uuid, 0},
                      {0, "", parent.partitions[2].uuid, 0}}};
  snapshot.devices.push_back(cpu(snapshot));
  return snapshot;
}

Snapshot sick() {
  Snapshot snapshot = machine(64, 64, 503);
  driver(snapshot);
  snapshot.host.simulated = true;
  for (int i = 0; i < 6; ++i)
    snapshot.devices.push_back(
        gpu(i, "NVIDIA GeForce RTX 3090", 24, i == 0 ? 20 : 0, i == 0 ? 97 : 0));
  snapshot.processes.push_back(process(0, 4100, "lin", 19.7, "python train.py"));
  snapshot.devices[0].health = Health::kDegraded;
  snapshot.devices[0].health_reasons = {"throttle:hw_thermal", "ecc_uncorrected"};
  snapshot.devices[0].throttle_reasons = {"hw_thermal", "hw_slowdown"};
  snapshot.devices[0].readings.pcie_width = std::uint64_t{4};
  snapshot.devices[1].health = Health::kLost;
  snapshot.devices[1].health_reasons = {"nvml:15", "xid:79"};
  set_all_absent(snapshot.devices[1].readings, Absence::kLost);
  snapshot.devices[2].health = Health::kNoAnswer;
  snapshot.devices[2].age_seconds = 12.0;
  set_all_absent(snapshot.devices[2].readings, Absence::kNoAnswer);
  snapshot.devices[3].compute_mode = "exclusive process";
  snapshot.unattributed.push_back({3, gib(1.2), "zombie", {{9001, "zhao", "", "Z"}}});
  snapshot.devices[3].readings.memory_used_bytes = gib(1.2);
  snapshot.devices.push_back(cpu(snapshot));
  return snapshot;
}

Snapshot unified() {
  Snapshot snapshot = machine(20, 20, 119.7);
  snapshot.host.cpu_model = "";
  driver(snapshot);
  snapshot.devices.push_back(gpu(0, "NVIDIA GB10", 119.7, 0, 3));
  Device& device = snapshot.devices.back();
  device.memory_unified = true;
  device.pci_address = "000f:01:00.0";
  device.readings.memory_used_bytes = Absence::kNotSupported;
  device.readings.power_limit_milliwatts = Absence::kNotSupported;
  snapshot.processes.push_back(process(0, 3100, "lin", 17.2, "/usr/bin/python3 chat.py"));
  snapshot.processes.push_back(process(0, 900, "root", 0.2, "/usr/lib/xorg/Xorg -core :0"));
  snapshot.processes.back().kind = {false, true, false};
  snapshot.devices.push_back(cpu(snapshot));
  return snapshot;
}

Snapshot asleep() {
  Snapshot snapshot = machine(16, 16, 15.3);
  snapshot.host.cpu_model = "AMD Ryzen 7 7840HS w/ Radeon 780M Graphics";
  driver(snapshot);
  snapshot.devices.push_back(gpu(0, "NVIDIA GeForce RTX 4060 Laptop GPU", 8, 0, 0));
  snapshot.devices[0].health = Health::kAsleep;
  snapshot.devices[0].uuid = "";
  set_all_absent(snapshot.devices[0].readings, Absence::kAsleep);
  snapshot.devices.push_back(gpu(1, "AMD Radeon 780M", 0.5, 0.3, 0));
  Device& radeon = snapshot.devices[1];
  radeon.vendor = Vendor::kAmd;
  radeon.vendor_name = "AMD";
  radeon.uuid = "";
  radeon.kernel_driver = "amdgpu";
  radeon.compute_mode = "";
  radeon.compute_capability = "";
  radeon.memory_unified = true;
  radeon.readings.utilization_percent = 4.0;
  radeon.readings.power_limit_milliwatts = Absence::kNotSupported;
  snapshot.devices.push_back(cpu(snapshot));
  return snapshot;
}

Snapshot strangers() {
  Snapshot snapshot = machine(32, 8, 252);
  driver(snapshot);
  snapshot.host.container = "kubernetes";
  snapshot.devices.push_back(gpu(0, "NVIDIA L40S", 44.99, 30, 55));
  snapshot.devices.push_back(gpu(1, "NVIDIA L40S", 44.99, 2, 0));
  DeviceProcess foreign = process(0, 0, "", 20, "");
  foreign.pid.reset();
  foreign.uid.reset();
  foreign.host_pid = 88123;
  foreign.cpu_percent = Absence::kNoPermission;
  foreign.rss_bytes = Absence::kNoPermission;
  foreign.age_seconds = Absence::kNoPermission;
  snapshot.processes.push_back(foreign);
  snapshot.processes.push_back(
      process(0, 41, "林小明", 6,
              "python 训练.py --数据 /数据/图像 --说明 一段很长的说明文字用来检查宽度"));
  snapshot.processes.back().container =
      "docker 3f2a9c0d1e5b77aa00112233445566778899aabbccddeeff0011223344556677";
  snapshot.processes.push_back(process(0, 42, "zhao", 1, "tr\xff\xfe\x1b[31m.py"));
  snapshot.processes.back().unit = "llm.service";
  snapshot.processes.push_back(process(0, 43, "zhao", 0.5, ""));
  snapshot.processes.back().kind.mps = true;
  snapshot.unattributed.push_back(
      {0,
       gib(2.5),
       "other_namespace",
       {{55, "zhao", "nvidia-cuda-mps-server", "S"}, {56, "", "", "D"}}});
  snapshot.unattributed.push_back({1, gib(2.0), "driver_reserve", {}});
  Device ascend;
  ascend.index = 2;
  ascend.kind = DeviceKind::kAccelerator;
  ascend.vendor_name = "Huawei Ascend";
  ascend.name = "Ascend 910B";
  ascend.managed = false;
  ascend.pci_address = "0000:c1:00.0";
  set_all_absent(ascend.readings, Absence::kNotSupported);
  snapshot.devices.push_back(ascend);
  Device pocl;
  pocl.index = 3;
  pocl.kind = DeviceKind::kOpenCl;
  pocl.vendor_name = "pocl";
  pocl.name = "pthread-Intel(R) Xeon(R) Processor\xc3";
  pocl.health = Health::kOk;
  set_all_absent(pocl.readings, Absence::kNotSupported);
  snapshot.devices.push_back(pocl);
  snapshot.devices.push_back(cpu(snapshot));
  return snapshot;
}

}  // namespace

std::vector<std::pair<std::string, Snapshot>> sample_machines() {
  return {{"eight-busy", eight_busy()},
          {"nothing", nothing()},
          {"broken-driver", broken_driver()},
          {"mig", mig()},
          {"sick", sick()},
          {"unified", unified()},
          {"asleep", asleep()},
          {"strangers", strangers()}};
}

}  // namespace berth::output
