// The ground's rules, each by what would be wrong with a machine that is well.
#include <doctest/doctest.h>

#include <cerrno>
#include <functional>

#include "doctor/bundle_json.hpp"
#include "doctor/diagnose.hpp"

using namespace berth::doctor;
using berth::model::Diagnosis;

namespace {

std::vector<Rule> ground_rules() {
  std::vector<Rule> all;
  for (const auto group :
       {hardware_rules(), link_rules(), driver_module_rules(), driver_state_rules(),
        driver_answer_rules(), xid_rules(), runtime_rules()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

PciFunction healthy_gpu(const std::string& address) {
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

GpuAnswer healthy_answer(const std::string& address) {
  GpuAnswer gpu;
  gpu.pci_address = address;
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

DeviceNode node(const std::string& path) {
  Node node;
  node.type = NodeType::kCharacter;
  node.mode = 0666;
  node.open_error = 0;
  return {path, node};
}

Facts healthy() {
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
  facts.nvidia.nodes = std::vector{node("/dev/nvidia0"), node("/dev/nvidia-uvm")};
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
void unload(Facts& facts) {
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
void log(Facts& facts, const std::string& line) {
  edit(facts.machine.kernel_log, [&](auto& lines) { lines.push_back(line); });
}

struct Mutation {
  const char* rule;
  std::function<void(Facts&)> change;
};

std::vector<Mutation> hardware_mutations() {
  return {
      {"HW01", [](Facts& f) { f.machine.pci = std::vector<PciFunction>{}; }},
      {"HW02", [](Facts& f) { first_gpu(f, [](auto& gpu) { gpu.driver = {}; }); }},
      {"HW03",
       [](Facts& f) { first_gpu(f, [](auto& gpu) { gpu.driver = std::string("nvidiafb"); }); }},
      {"HW04",
       [](Facts& f) {
         first_gpu(f, [](auto& gpu) { edit(gpu.bar_starts, [](auto& bars) { bars[1] = 0; }); });
       }},
      {"HW04", [](Facts& f) { log(f, "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)"); }},
      {"HW05", [](Facts& f) { first_gpu(f, [](auto& gpu) { gpu.link.width = 4; }); }},
      {"HW06", [](Facts& f) { first_gpu(f, [](auto& gpu) { gpu.link.gigatransfers = 2.5; }); }},
      {"HW07", [](Facts& f) { first_gpu(f, [](auto& gpu) {
                                gpu.errors = AerCounts{0, 2};
                              }); }},
      {"HW08", [](Facts& f) { first_gpu(f, [](auto& gpu) { gpu.gone = true; }); }},
      {"HW08", [](Facts& f) { first_answer(f, [](auto& gpu) { gpu.error = 15; }); }},
      {"HW09",
       [](Facts& f) {
         first_gpu(f, [](auto& gpu) { gpu.aspm = true; });
         log(f, "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.");
       }},
      {"HW10",
       [](Facts& f) {
         first_gpu(f, [](auto& gpu) { gpu.runtime_status = std::string("suspended"); });
       }},
      {"HW11",
       [](Facts& f) {
         first_gpu(f, [](auto& gpu) {
           gpu.redirecting_bridges = std::vector<std::string>{"0000:00:01.0"};
         });
       }},
      {"HW12",
       [](Facts& f) {
         edit(f.machine.pci, [](auto& all) {
           for (PciFunction& gpu : all) gpu.iommu = std::string("DMA-FQ");
         });
       }},
      {"HW13",
       [](Facts& f) {
         f.process.cpus = std::vector{8, 9};
       }},
  };
}

std::vector<Mutation> module_mutations() {
  return {
      {"DRV01", unload},
      {"DRV02",
       [](Facts& f) {
         unload(f);
         edit(f.nvidia.modules_on_disk, [](auto& files) { files[0].kernel = "6.8.0-44-generic"; });
       }},
      {"DRV03",
       [](Facts& f) {
         unload(f);
         f.machine.secure_boot = true;
       }},
      {"DRV04",
       [](Facts& f) {
         unload(f);
         first_gpu(f, [](auto& gpu) { gpu.driver = std::string("nouveau"); });
       }},
      {"DRV05",
       [](Facts& f) {
         f.nvidia.library_version = std::string("550.120");
         f.driver.nvml_init = 18;
       }},
      {"DRV06",
       [](Facts& f) {
         f.nvidia.open_module = true;
         first_gpu(f, [](auto& gpu) { gpu.device = 0x1bb3; });
       }},
      {"DRV07",
       [](Facts& f) {
         log(f, "NVRM: installed in this system requires use of the NVIDIA open kernel modules.");
       }},
      {"DRV08",
       [](Facts& f) {
         unload(f);
         log(f, "NVRM: supported through the NVIDIA 580.xx Legacy drivers. Please");
       }},
      {"DRV08",
       [](Facts& f) {
         unload(f);
         f.nvidia.library_version = std::string("595.71.05");
         edit(f.machine.pci, [](auto& all) {
           for (PciFunction& gpu : all) gpu.device = 0x1c81;
         });
       }},
      {"DRV09",
       [](Facts& f) {
         f.driver.gpus = std::vector<GpuAnswer>{};
         log(f,
             "NVRM: _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting gsp");
       }},
      {"DRV10",
       [](Facts& f) {
         f.nvidia.firmware = std::vector<std::string>{"535.183.01"};
         f.driver.gpus = std::vector<GpuAnswer>{};
       }},
  };
}

std::vector<Mutation> state_mutations() {
  return {
      {"DRV11",
       [](Facts& f) {
         f.nvidia.nodes = std::vector{node("/dev/nvidia0")};
         f.driver.cuda_init = 999;
       }},
      {"DRV12",
       [](Facts& f) {
         edit(f.nvidia.nodes, [](auto& all) {
           all[0].node.mode = 0600;
           all[0].node.open_error = EACCES;
         });
       }},
      {"DRV13", [](Facts& f) { f.driver.cuda_init = 999; }},
      {"DRV14",
       [](Facts& f) {
         f.driver.cuda_init = 999;
         log(f, "nvidia-uvm: uvm_pmm_gpu.c devmem_alloc_pagemap request_free_mem_region() err -34");
       }},
      {"DRV15", [](Facts& f) { f.driver.cuda_init = 802; }},
      {"DRV15",
       [](Facts& f) {
         f.driver.cuda_init = Unreadable{"cuda_init", 0};
         edit(f.machine.pci, [](auto& all) {
           PciFunction one;
           one.vendor = 0x10de;
           one.device = 0x22a3;
           one.class_code = 0x068000;
           all.push_back(one);
         });
       }},
      {"DRV16",
       [](Facts& f) {
         f.machine.processes = std::vector<std::string>{"systemd"};
         first_answer(f, [](auto& gpu) { gpu.persistence = false; });
       }},
      {"DRV17",
       [](Facts& f) {
         edit(f.nvidia.libraries, [](auto& all) {
           all.push_back({"libcuda.so", "535.1.2", "/usr/lib64/libcuda.so.535.1.2"});
         });
       }},
      {"DRV18", [](Facts& f) { f.nvidia.reboot_wanted_by = std::string("nvidia-dkms-550\n"); }},
      {"DRV22", [](Facts& f) { f.driver.cuda_init = 805; }},
      {"DRV23",
       [](Facts& f) {
         log(f, "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.");
       }},
      {"DRV24",
       [](Facts& f) {
         log(f, "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 12");
       }},
  };
}

std::vector<Mutation> answer_mutations() {
  return {
      {"DRV19",
       [](Facts& f) {
         first_answer(f, [](auto& gpu) { gpu.mig_enabled = gpu.mig_pending = true; });
       }},
      {"DRV19", [](Facts& f) { first_answer(f, [](auto& gpu) { gpu.mig_pending = true; }); }},
      {"DRV20",
       [](Facts& f) {
         first_answer(f, [](auto& gpu) { gpu.compute_mode = std::string("exclusive process"); });
       }},
      {"DRV21",
       [](Facts& f) {
         first_answer(f, [](auto& gpu) { gpu.vgpu_licence = std::string("unlicensed"); });
       }},
      {"DRV25", [](Facts& f) { first_answer(f, [](auto& gpu) { gpu.remap_pending = true; }); }},
      {"DRV26", [](Facts& f) { first_answer(f, [](auto& gpu) { gpu.ecc_uncorrected = 1; }); }},
      {"DRV27", [](Facts& f) { first_answer(f, [](auto& gpu) { gpu.cc_ready = false; }); }},
      {"RT01",
       [](Facts& f) { first_answer(f, [](auto& gpu) { gpu.processes_memory_bytes = 0; }); }},
      {"RT03",
       [](Facts& f) {
         first_answer(f, [](auto& gpu) { gpu.throttle = std::vector<std::string>{"hw_thermal"}; });
       }},
      {"RT04",
       [](Facts& f) { first_answer(f, [](auto& gpu) { gpu.power_limit_milliwatts = 200'000; }); }},
      {"RT05",
       [](Facts& f) {
         first_answer(f, [](auto& gpu) {
           gpu.clock_graphics_locked_mhz = 300;
           gpu.clock_graphics_max_mhz = 2500;
         });
       }},
      {"RT06", [](Facts& f) { f.process.shm_used_bytes = 16ULL << 30; }},
      {"RT07", [](Facts& f) { f.process.open_files_limit = 256; }},
      {"RT07", [](Facts& f) { f.process.cgroup_processes_limit = 20; }},
      {"RT08", [](Facts& f) { f.driver.peer_pairs_unsupported = std::vector<std::string>{"0-1"}; }},
      {"RT09", [](Facts& f) { first_answer(f, [](auto& gpu) { gpu.display_active = true; }); }},
      {"RT10", [](Facts& f) { first_answer(f, [](auto& gpu) { gpu.bar1_bytes = 256ULL << 20; }); }},
      {"RT11",
       [](Facts& f) {
         f.machine.host_name_address = std::string("127.0.1.1");
         f.process.environment = Environment{{"MASTER_ADDR", "lab0"}};
       }},
  };
}

Facts all_unreadable() {
  const Unreadable why{"test", EACCES};
  Facts facts;
  auto& machine = facts.machine;
  machine.aspm_policy = machine.kernel = machine.machine_kind = machine.host_name =
      machine.host_name_address = why;
  machine.pci = why;
  machine.modules = machine.kernel_log = machine.processes = why;
  machine.secure_boot = why;
  machine.suspends = why;
  auto& nvidia = facts.nvidia;
  nvidia.module_version = nvidia.library_version = nvidia.fabric_manager = why;
  nvidia.reboot_wanted_by = nvidia.source = why;
  nvidia.open_module = nvidia.modprobe_helper = why;
  nvidia.parameters = why;
  nvidia.modules_on_disk = why;
  nvidia.kernels_on_disk = nvidia.installers = nvidia.firmware = why;
  nvidia.modprobe = why;
  nvidia.libraries = why;
  nvidia.nodes = why;
  nvidia.mps_control = why;
  facts.driver = driver_not_asked();
  auto& process = facts.process;
  process.identity = why;
  process.environment = why;
  process.cpus = why;
  process.quota_cores = why;
  process.open_files_limit = process.processes_limit = process.cgroup_processes_limit = why;
  process.shm_total_bytes = process.shm_used_bytes = why;
  return facts;
}

}  // namespace

TEST_CASE("a machine that is well is called well") {
  const Diagnosis diagnosis = diagnose_with(ground_rules(), healthy(), {});
  for (const auto& finding : diagnosis.findings) MESSAGE(finding.id << ": " << finding.title);
  CHECK(diagnosis.findings.empty());
}

TEST_CASE("what is wrong with a machine is said first, by the rule that is for it") {
  std::vector<std::string> tried;
  for (const auto& mutations :
       {hardware_mutations(), module_mutations(), state_mutations(), answer_mutations()}) {
    for (const Mutation& mutation : mutations) {
      Facts facts = healthy();
      mutation.change(facts);
      const Diagnosis diagnosis = diagnose_with(ground_rules(), facts, {});
      CAPTURE(mutation.rule);
      REQUIRE_FALSE(diagnosis.findings.empty());
      CHECK(diagnosis.findings.front().id == mutation.rule);
      CHECK_FALSE(diagnosis.findings.front().title.empty());
      tried.emplace_back(mutation.rule);
    }
  }
  for (const Rule& rule : ground_rules())
    CHECK_MESSAGE(std::find(tried.begin(), tried.end(), rule.id) != tried.end(), rule.id);
}

TEST_CASE("what only looks ill is left alone") {
  const std::vector<std::function<void(Facts&)>> looks{
      // an idle link rests
      [](Facts& f) {
        first_gpu(f, [](auto& gpu) { gpu.link.gigatransfers = 2.5; });
        first_answer(f, [](auto& gpu) { gpu.utilization_percent = 0.0; });
      },
      // nvidia_uvm comes with the first CUDA program
      [](Facts& f) {
        f.nvidia.nodes = std::vector{node("/dev/nvidia0")};
        f.nvidia.modprobe_helper = true;
        f.driver.cuda_init = Unreadable{"cuda_init", 0};
      },
      // a suspend that nobody minded
      [](Facts& f) {
        f.machine.suspends = 3;
        log(f, "PM: suspend exit");
      },
      // an IOMMU between GPUs that talk over NVSwitches, whose manager has done its work
      [](Facts& f) {
        edit(f.machine.pci, [](auto& all) {
          for (PciFunction& gpu : all) gpu.iommu = std::string("DMA");
          PciFunction one;
          one.vendor = 0x10de;
          one.device = 0x22a3;
          one.class_code = 0x068000;
          all.push_back(one);
        });
      },
      // Debian gives every machine this address; nobody asks for it on one machine
      [](Facts& f) { f.machine.host_name_address = std::string("127.0.1.1"); },
      // WSL's GPU is not on its bus
      [](Facts& f) {
        f.machine.is_wsl = true;
        f.machine.pci = std::vector<PciFunction>{};
        f.machine.modules = std::vector<std::string>{};
        f.nvidia.module_version = {};
      },
      // a virtual machine's links are what its host makes up
      [](Facts& f) {
        f.machine.is_virtual = true;
        first_gpu(f, [](auto& gpu) { gpu.link.width = 1; });
      },
  };
  for (std::size_t i = 0; i < looks.size(); ++i) {
    Facts facts = healthy();
    looks[i](facts);
    CAPTURE(i);
    CHECK(diagnose_with(ground_rules(), facts, {}).findings.empty());
  }
}

TEST_CASE("an Xid of memory that NVML counts is said once; an old driver's Xid is read, too") {
  Facts facts = healthy();
  log(facts,
      "NVRM: Xid (0000:01:00): 48, An uncorrectable double bit error (DBE) has been detected");
  CHECK(diagnose_with(ground_rules(), facts, {}).findings.front().id == "DRV23");
  first_answer(facts, [](auto& gpu) { gpu.ecc_uncorrected = 2; });
  const Diagnosis diagnosis = diagnose_with(ground_rules(), facts, {});
  REQUIRE(diagnosis.findings.size() == 1);
  CHECK(diagnosis.findings.front().id == "DRV26");
}

TEST_CASE("the gravest Xid of a GPU is told, with what mends it") {
  Facts facts = healthy();
  facts.nvidia.module_version = facts.nvidia.library_version = std::string("525.60.13");
  log(facts, "NVRM: Xid (PCI:0000:01:00): 45, pid=7, Ch 00000010");
  log(facts, "NVRM: Xid (PCI:0000:01:00): 119, pid=7, Timeout waiting for RPC from GSP!");
  log(facts, "NVRM: Xid (PCI:0000:41:00): 31, pid=9, Ch 00000010");
  const auto findings = diagnose_with(xid_rules(), facts, {}).findings;
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].title.find("119") != std::string::npos);
  CHECK(findings[0].fix.front().says.find("525.105.17") != std::string::npos);
  CHECK(findings[1].severity == Severity::kWarning);
}

TEST_CASE("what cannot be read is neither fine nor wrong") {
  const Diagnosis diagnosis = diagnose_with(ground_rules(), all_unreadable(), {});
  for (const auto& finding : diagnosis.findings) MESSAGE(finding.id << ": " << finding.title);
  CHECK(diagnosis.findings.empty());
  for (const std::string& id : diagnosis.checked) MESSAGE(id << " says that it has looked");
  CHECK(diagnosis.checked.empty());
  CHECK(diagnosis.not_checked.size() == ground_rules().size());
}
