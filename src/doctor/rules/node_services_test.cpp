#include <doctest/doctest.h>

#include "doctor/read/collectors.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using berth::system::TemporaryTree;
using tests::alter;
using tests::card;
using tests::severity_of;

namespace node_services_test {
namespace {

/// A Slurm or Kubernetes node with one GPU.
Facts node() {
  Facts facts;
  facts.machine.kernel = std::string("6.8.0-45-generic");
  facts.machine.modules = std::vector<std::string>{"nvidia", "nvidia_uvm"};
  facts.machine.pci = std::vector{card("0000:01:00.0", 0x10de, 0x26b9, "nvidia")};
  facts.machine.processes = std::vector<std::string>{"systemd"};
  facts.nodes.nvidia =
      std::vector{GpuNode{"/dev/nvidiactl", {}, 0}, GpuNode{"/dev/nvidia0", {}, 0}};
  facts.process.environment = Environment{};
  return facts;
}

SlurmSettings told(const char* gres) {
  const TemporaryTree folder;
  folder.put("usr/sbin/slurmd", "");
  folder.put("etc/slurm/gres.conf", gres);
  folder.put("usr/lib64/slurm/gres_gpu.so", "");
  return collect_slurm(Tree(folder.path)).value_or({});
}

}  // namespace

TEST_CASE("gres.conf is read as slurmd reads it") {
  using Files = std::vector<std::string>;
  CHECK(told("Name=gpu Type=l40s File=/dev/nvidia[0-1,3] # File=/dev/nvidia9\n").files ==
        Files{"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia3"});
  CHECK(told("NodeName=other[1-8] Name=gpu File=/dev/nvidia[0-7]\n").files.empty());
  CHECK(told("Name=gpu MultipleFiles=x File=/dev/nvidia-caps/nvidia-cap21\n").files.empty());
  CHECK(told("AutoDetect=NVML\n").by_nvml);
  CHECK_FALSE(told("AutoDetect=off\n").by_nvml);
  const TemporaryTree folder;
  folder.put("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia[0-7]\n");
  CHECK(collect_slurm(Tree(folder.path)).is_absent());
}

TEST_CASE("Slurm's configuration has GPUs that do not exist") {
  Facts facts = node();
  const auto slurm = [&] { return severity_of(node_service_rules(), facts, "CTR25"); };
  CHECK(slurm().empty());
  facts.container.slurm = told("Name=gpu File=/dev/nvidia0\n");
  CHECK(slurm().empty());
  facts.container.slurm = told("Name=gpu File=/dev/nvidia[0-3]\n");
  CHECK(slurm() == "warning");
  // No finding on a login node, which has the same gres.conf but no GPU.
  facts.nodes.nvidia = std::vector<GpuNode>{};
  CHECK(slurm().empty());
  facts = node();
  facts.container.slurm = told("AutoDetect=nvml\n");
  CHECK(slurm() == "warning");
  const auto fix = [&] {
    const auto found =
        diagnose_with({node_service_rules().begin(), node_service_rules().end()}, facts, {})
            .findings;
    return found.at(0).fix.at(0);
  };
  CHECK(fix().command.starts_with("sudo sed -i"));
  // slurmd gets this copy from the controller at each start, so a change of the copy would be lost.
  alter(facts.container.slurm, [](auto& it) { it.path = "/run/slurm/conf/gres.conf"; });
  CHECK(fix().command == "sudo scontrol reconfigure");
  CHECK(fix().says.find("AutoDetect=nvidia") != std::string::npos);
  CHECK(fix().says.find("on the controller") != std::string::npos);
  alter(facts.container.slurm,
        [](auto& it) { it.nvml_plugin = std::string("/usr/lib64/slurm/gpu_nvml.so"); });
  CHECK(slurm().empty());
}

TEST_CASE("a node's kubelet waits for a device plugin, or does without") {
  Facts facts = node();
  const auto plugin = [&] { return severity_of(node_service_rules(), facts, "CTR27"); };
  CHECK(plugin().empty());
  facts.container.plugin_sockets = std::vector<std::string>{"kubelet.sock"};
  CHECK(plugin() == "info");
  alter(facts.container.plugin_sockets, [](auto& it) { it.push_back("nvidia-gpu.sock"); });
  CHECK(plugin().empty());
  for (const char* other : {"hami.sock", "volcano.sock", "nvidiaGPU-1712345678.sock"}) {
    facts.container.plugin_sockets = std::vector<std::string>{other, "kubelet.sock"};
    CHECK(plugin().empty());
  }
  facts.container.plugin_sockets = std::vector<std::string>{"kubelet.sock"};
  facts.container.kubelet_plugins = std::vector<std::string>{"gpu.nvidia.com"};
  CHECK(plugin().empty());
}

TEST_CASE("what dpkg has not finished is known by its words, and left alone while it runs") {
  const TemporaryTree folder;
  folder.put("var/lib/dpkg/status",
             "Package: nvidia-dkms-550\nStatus: install ok half-configured\n\n"
             "Package: nvidia-utils-535\nStatus: deinstall ok config-files\n\n"
             "Package: vim\nStatus: install ok unpacked\n\n"
             "Package: libnvidia-gl-550\nStatus: install reinstreq half-installed\n\n"
             "Package: nvidia-driver-550\nStatus: hold ok installed\n");
  const auto found = collect_unfinished(Tree(folder.path)).value_or({});
  REQUIRE(found.size() == 2);
  CHECK(found[0].name == "nvidia-dkms-550");
  CHECK(found[1].status == "reinstreq");
  Facts facts = node();
  facts.nvidia.unfinished = found;
  const auto unfinished = [&] { return severity_of(driver_install_rules(), facts, "DRV33"); };
  CHECK(unfinished() == "warning");
  alter(facts.machine.processes, [](auto& it) { it.push_back("dpkg"); });
  CHECK(unfinished().empty());
  alter(facts.machine.processes, [](auto& it) { it.pop_back(); });
  facts.machine.modules = std::vector<std::string>{"ext4"};
  CHECK(unfinished() == "error");
  // An unfinished kernel package is reported only if DKMS builds NVIDIA's module for it.
  facts.nvidia.unfinished =
      std::vector<UnfinishedPackage>{{"linux-image-6.8.0", "half-configured"}};
  CHECK(unfinished().empty());
  facts.nvidia.source = std::string("/usr/src/nvidia-550.90.07");
  CHECK(unfinished() == "error");
}

TEST_CASE("a part of a GPU is told from a whole one by the machine around it") {
  Facts facts = node();
  alter(facts.machine.pci, [](auto& it) { it.front().device = 0x2236; });
  facts.machine.machine_maker = std::string("Microsoft Corporation");
  facts.machine.machine_kind = std::string("Virtual Machine");
  facts.driver.nvml_init = 0;
  facts.driver.gpus = std::vector<GpuAnswer>{};
  facts.driver.cuda_init = 100;
  const auto part = [&] { return severity_of(vgpu_rules(), facts, "DRV35"); };
  CHECK(part() == "error");
  facts.nvidia.gridd = std::string("/usr/bin/nvidia-gridd");
  CHECK(part().empty());
  facts.nvidia.gridd = {};
  // 0x1eb8 is a whole T4, not a vGPU
  alter(facts.machine.pci, [](auto& it) { it.front().device = 0x1eb8; });
  CHECK(part().empty());
  GpuAnswer gpu;
  gpu.vgpu_licence = std::string("licensed");
  for (const auto& [name, severity] :
       {std::pair("GRID T4-2B", "error"), std::pair("NVIDIA A10-4A", "error"),
        std::pair("NVIDIA A40-48Q", ""), std::pair("NVIDIA A40-48C", "")}) {
    gpu.name = std::string(name);
    facts.driver.gpus = std::vector{gpu};
    CHECK(part() == severity);
  }
  gpu.name = std::string("GRID T4-2B");
  facts.driver.gpus = std::vector{gpu};
  facts.driver.cuda_init = 0;
  CHECK(part().empty());
}

TEST_CASE("a channel of IMEX is missed where NVLink joins machines") {
  Facts facts = node();
  GpuAnswer gpu;
  gpu.name = std::string("NVIDIA GB200");
  gpu.fabric_state = std::string("completed");
  facts.driver.gpus = std::vector{gpu};
  const auto channel = [&] { return severity_of(driver_service_rules(), facts, "DRV37"); };
  CHECK(channel() == "info");
  facts.process.environment = Environment{{"SLURM_NNODES", "2"}};
  CHECK(channel() == "warning");
  facts.nvidia.imex_channels = std::vector<std::string>{"channel0"};
  CHECK(channel().empty());
  facts.nvidia.imex_channels = {};
  alter(facts.driver.gpus,
        [](auto& it) { it.front().name = std::string("NVIDIA H100 80GB HBM3"); });
  CHECK(channel().empty());
}

TEST_CASE("a module that was there before the machine started is not mended by another start") {
  Facts facts = node();
  facts.nvidia.module_version = std::string("550.90.07");
  facts.nvidia.library_version = std::string("550.144.03");
  facts.driver.nvml_init = 18;
  facts.nvidia.modules_on_disk =
      std::vector<ModuleFile>{{"6.8.0-45-generic", "/lib/modules/nvidia.ko", true, {}}};
  facts.machine.started = 1'763'800'000;
  const auto first = [&] {
    return diagnose_with({driver_module_rules().begin(), driver_module_rules().end()}, facts, {})
        .findings.front()
        .fix.front()
        .command;
  };
  CHECK(first() == "sudo reboot");
  alter(facts.nvidia.modules_on_disk, [](auto& it) { it.front().changed = 1'763'810'000; });
  CHECK(first() == "sudo reboot");
  alter(facts.nvidia.modules_on_disk, [](auto& it) { it.front().changed = 1'763'000'000; });
  CHECK(first() == "modinfo -F version nvidia");
}

TEST_CASE("a laptop at its base power is reported only while its GPU is busy") {
  Facts facts = node();
  facts.machine.is_laptop = true;
  GpuAnswer gpu;
  gpu.compute_capability = std::string("8.9");
  gpu.throttle = std::vector<std::string>{"sw_power_cap"};
  gpu.utilization_percent = 98;
  facts.driver.gpus = std::vector{gpu};
  const auto power = [&] { return severity_of(power_rules(), facts, "RT17"); };
  CHECK(power() == "info");
  alter(facts.driver.gpus, [](auto& it) { it.front().utilization_percent = 3; });
  CHECK(power().empty());
  alter(facts.driver.gpus, [](auto& it) { it.front().utilization_percent = 98; });
  alter(facts.machine.processes, [](auto& it) { it.push_back("nvidia-powerd"); });
  CHECK(power().empty());
  facts.machine.on_battery = true;
  CHECK(power() == "info");
  facts.machine.is_laptop = false;
  CHECK(power().empty());
}

TEST_CASE("CUDA wants addresses for all memory of the GPUs") {
  Facts facts = node();
  GpuAnswer gpu;
  gpu.memory_total_bytes = 48ULL << 30;
  facts.driver.gpus = std::vector{gpu};
  const auto space = [&] { return severity_of(runtime_rules(), facts, "RT07"); };
  CHECK(space().empty());
  facts.process.address_space_limit_bytes = 16ULL << 30;
  CHECK(space() == "error");
  // The user cannot raise the hard limit, so the fixes are for the scheduler and for root.
  const auto fixes =
      diagnose_with({runtime_rules().begin(), runtime_rules().end()}, facts, {}).findings.at(0).fix;
  REQUIRE(fixes.size() == 2);
  CHECK(fixes[1].command.starts_with("qsub -l h_vmem="));
  CHECK(fixes[1].says.find("/etc/security/limits.conf") != std::string::npos);
  facts.process.address_space_limit_bytes = 1ULL << 45;
  CHECK(space().empty());
}

TEST_CASE("Docker's endpoint: an address, a variable, then the user's settings") {
  const berth::system::TemporaryTree folder;
  folder.put("home/ada/.docker/config.json", R"({"currentContext":"desktop-linux"})");
  folder.put("other/config.json", R"({"currentContext":["desktop-linux"]})");
  folder.put("none/config.json", "{");
  const auto by = [&](Environment environment) {
    ProcessFacts process;
    process.environment = std::move(environment);
    return collect_container(Tree(folder.path), process).engines.uses_docker_desktop.value_or("no");
  };
  CHECK(by({{"HOME", "/home/ada"}}) == "/home/ada/.docker/config.json");
  CHECK(by({{"HOME", "/home/ada"}, {"DOCKER_HOST", "unix:///run/docker.sock"}}) == "no");
  CHECK(by({{"HOME", "/home/ada"}, {"DOCKER_CONTEXT", "default"}}) == "no");
  CHECK(by({{"DOCKER_CONTEXT", "desktop-linux"}}) == "DOCKER_CONTEXT=desktop-linux");
  for (const char* config : {"/other", "/none", "/nowhere"})
    CHECK(by({{"HOME", "/home/ada"}, {"DOCKER_CONFIG", config}}) == "no");
}

}  // namespace node_services_test
