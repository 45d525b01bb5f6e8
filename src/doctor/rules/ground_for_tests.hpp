// For tests: the basic rules, and a machine with two GPUs and without faults, which tests modify.
#pragma once

#include <string>
#include <vector>

#include "doctor/rules/rule.hpp"

namespace berth::doctor {

inline std::vector<Rule> ground_rules() {
  std::vector<Rule> all;
  for (const auto group :
       {hardware_rules(), link_rules(), driver_module_rules(), driver_branch_rules(),
        driver_node_rules(), driver_service_rules(), driver_install_rules(), driver_answer_rules(),
        driver_silence_rules(), xid_rules(), runtime_rules()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

inline PciFunction healthy_gpu(const std::string& address) {
  PciFunction gpu;
  gpu.address = address;
  gpu.vendor = 0x10de;
  gpu.device = 0x2684;
  gpu.class_code = 0x030200;
  gpu.driver = std::string("nvidia");
  gpu.runtime_status = std::string("active");
  gpu.power_state = std::string("D0");
  gpu.gone = false;
  gpu.bar_starts = std::vector<std::uint64_t>{0x92000000, 0x4000000000, 0, 0x4800000000};
  gpu.link = {16, 16, 16.0, 16.0};
  gpu.port = {16, 16, 16.0, 16.0};
  gpu.port_address = "0000:00:01.0";
  gpu.aspm = false;
  gpu.errors = gpu.port_errors = AerCounts{};
  gpu.iommu = std::string("identity");
  gpu.numa_node = 0;
  gpu.near_cpus = std::vector{0, 1, 2, 3};
  gpu.redirecting_bridges = std::vector<std::string>{};
  return gpu;
}

inline GpuAnswer healthy_answer(const std::string& address) {
  GpuAnswer gpu;
  gpu.pci_address = address;
  gpu.silent = false;
  gpu.name = std::string("NVIDIA GeForce RTX 4090");
  gpu.memory_total_bytes = 24ULL << 30;
  gpu.memory_used_bytes = 10ULL << 30;
  gpu.processes_memory_bytes = 10ULL << 30;
  gpu.utilization_percent = 97.0;
  gpu.compute_mode = std::string("default");
  gpu.persistence = true;
  gpu.mig_enabled = gpu.mig_pending = false;
  gpu.mig_instances = std::vector<std::string>{};
  gpu.throttle = std::vector<std::string>{"sw_power_cap"};
  gpu.ecc_uncorrected = 0;
  gpu.remap_pending = gpu.remap_failed = gpu.retired_pages_pending = false;
  gpu.power_limit_milliwatts = gpu.power_limit_default_milliwatts = 450'000;
  gpu.bar1_bytes = 32ULL << 30;
  gpu.display_active = false;
  return gpu;
}

inline DeviceNode node(const std::string& path) {
  Node node;
  node.type = NodeType::kCharacter;
  node.mode = 0666;
  node.open_error = 0;
  return {path, node};
}

inline GpuNode gpu_node(const std::string& path) {
  return {path, node(path).node};
}

inline Facts healthy() {
  Facts facts;
  facts.machine.kernel = std::string("6.8.0-45-generic");
  facts.machine.pci = std::vector{healthy_gpu("0000:01:00.0"), healthy_gpu("0000:41:00.0")};
  facts.machine.modules = std::vector<std::string>{"nvidia", "nvidia_uvm", "ext4"};
  facts.machine.kernel_log = std::vector<std::string>{"NVRM: loading NVIDIA UNIX Kernel Module"};
  facts.machine.processes = std::vector<std::string>{"systemd", "nvidia-persiste"};
  facts.machine.secure_boot = false;
  facts.machine.host_name = std::string("lab1");
  facts.machine.host_name_address = std::string("10.0.0.4");
  facts.nvidia.module_version = std::string("550.107.02");
  facts.nvidia.open_module = false;
  facts.nvidia.kernels_on_disk = std::vector<std::string>{"6.8.0-45-generic"};
  facts.nvidia.modules_on_disk = std::vector<ModuleFile>{
      {"6.8.0-45-generic", "/lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko", true}};
  facts.nvidia.modprobe = std::vector<ModprobeLine>{};
  facts.nvidia.libraries =
      std::vector<DriverLibrary>{{"libcuda.so", "550.107.02", "/usr/lib/libcuda.so.550.107.02"}};
  facts.nvidia.library_version = std::string("550.107.02");
  facts.nvidia.firmware = std::vector<std::string>{"550.107.02"};
  facts.nvidia.nodes =
      std::vector{node("/dev/nvidia0"), node("/dev/nvidia1"), node("/dev/nvidia-uvm")};
  facts.nodes.nvidia =
      std::vector{gpu_node("/dev/nvidia0"), gpu_node("/dev/nvidia1"), gpu_node("/dev/nvidia-uvm")};
  facts.nvidia.modprobe_helper = false;
  facts.driver.nvml_init = facts.driver.cuda_init = 0;
  facts.driver.gpus = std::vector{healthy_answer("0000:01:00.0"), healthy_answer("0000:41:00.0")};
  facts.driver.peer_pairs_unsupported = std::vector<std::string>{};
  facts.process.identity = Identity{1000, 1000, {44}};
  facts.process.environment = Environment{{"PATH", "/usr/bin"}};
  facts.process.cpus = std::vector{0, 1, 2, 3};
  facts.process.open_files_limit = 1024;
  facts.process.shm_total_bytes = 16ULL << 30;
  facts.process.shm_used_bytes = 0;
  return facts;
}

template <typename T, typename Edit>
void edit(Fact<T>& fact, Edit change) {
  T value = *fact;
  change(value);
  fact = std::move(value);
}
template <typename Edit>
void first_gpu(Facts& facts, Edit change) {
  edit(facts.machine.pci, [&](auto& all) { change(all[0]); });
}
template <typename Edit>
void first_answer(Facts& facts, Edit change) {
  edit(facts.driver.gpus, [&](auto& all) { change(all[0]); });
}
inline void unload(Facts& facts) {
  facts.machine.modules = std::vector<std::string>{"ext4"};
  facts.nvidia.module_version = {};
  facts.nvidia.open_module = {};
  facts.nvidia.nodes = std::vector<DeviceNode>{};
  facts.driver.nvml_init = 9;
  facts.driver.cuda_init = 100;
  facts.driver.gpus = Unreadable{"gpus", 0};
  edit(facts.machine.pci, [](auto& all) {
    for (PciFunction& gpu : all) gpu.driver = {};
  });
}
inline void log(Facts& facts, const std::string& line) {
  edit(facts.machine.kernel_log, [&](auto& lines) { lines.push_back(line); });
}

}  // namespace berth::doctor
