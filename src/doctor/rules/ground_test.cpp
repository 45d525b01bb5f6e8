// Tests of the basic rules. Each test adds one fault to a machine without faults.
#include <doctest/doctest.h>

#include <cerrno>
#include <functional>

#include "doctor/read/bundle_json.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/ground_for_tests.hpp"

using namespace berth::doctor;
using berth::model::Diagnosis;

namespace ground_test {
namespace {

struct Mutation {
  const char* rule;
  std::function<void(Facts&)> change;
};

std::vector<Mutation> hardware_mutations() {
  return {
      {"HW01",
       [](Facts& f) {
         f.machine.pci = std::vector<PciFunction>{};
         f.driver.gpus = std::vector<GpuAnswer>{};
       }},
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
      {"HW14",
       [](Facts& f) {
         f.machine.slow_devices = std::vector{SlowDevice{"X100", "GPU-1", "/f/latest.json", {"a"}}};
       }},
      {"HW13",
       [](Facts& f) {
         f.process.cpus = std::vector{8, 9};
       }},
  };
}

std::vector<Mutation> branch_mutations() {
  return {
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
      // The GPU is too old for the driver. There is no line in the log, because the module may not
      // be loaded.
      {"DRV08",
       [](Facts& f) {
         edit(f.machine.pci, [](auto& all) {
           for (PciFunction& gpu : all) gpu.device = 0x102d;
         });
         f.driver.gpus = std::vector<GpuAnswer>{};
         f.driver.cuda_init = 100;
       }},
      {"DRV08",
       [](Facts& f) {
         unload(f);
         f.nvidia.library_version = {};
         f.nvidia.libraries = std::vector<DriverLibrary>{{"libcuda.so", "590.44.01", "/usr/lib"}};
         edit(f.machine.pci, [](auto& all) {
           for (PciFunction& gpu : all) gpu.device = 0x1b06;
         });
       }},
      {"DRV08",
       [](Facts& f) {
         edit(f.machine.pci, [](auto& all) {
           for (PciFunction& gpu : all) gpu.device = 0x1096;
         });
         f.driver.gpus = Unreadable{"gpus", 0};
         f.driver.nvml_init = 9;
         f.driver.cuda_init = 100;
         log(f, "NVRM: supported through the NVIDIA 390.xx Legacy drivers. Please");
       }},
  };
}

std::vector<Mutation> module_mutations() {
  return {
      {"DRV33",
       [](Facts& f) {
         f.nvidia.unfinished = std::vector<UnfinishedPackage>{{"nvidia-dkms", "x"}};
       }},
      {"DRV37",
       [](Facts& f) {
         first_answer(f, [](GpuAnswer& gpu) {
           gpu.name = std::string("NVIDIA GB200");
           gpu.fabric_state = std::string("completed");
         });
       }},
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
      {"DRV28", [](Facts& f) { f.driver.cuda_init = 304; }},
      {"DRV28", [](Facts& f) { first_answer(f, [](auto& gpu) { gpu.error = 999; }); }},
      {"DRV28",
       [](Facts& f) {
         f.driver.gpus = std::vector<GpuAnswer>{};
         f.driver.cuda_init = 100;
       }},
      {"DRV28", [](Facts& f) { edit(f.driver.gpus, [](auto& all) { all.pop_back(); }); }},
      {"DRV29", [](Facts& f) { f.driver.failure = std::string("E0302"); }},
      {"DRV30", [](Facts& f) { first_answer(f, [](auto& gpu) { gpu.silent = true; }); }},
      {"RT14",
       [](Facts& f) {
         f.process.disk_space = std::vector{DiskSpace{"/tmp", "TMPDIR", 0, {}}};
       }},
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
  machine.slow_devices = why;
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
  nvidia.unfinished = why;
  facts.driver = driver_not_asked();
  auto& process = facts.process;
  process.identity = why;
  process.environment = why;
  process.cpus = why;
  process.quota_cores = why;
  process.open_files_limit = process.processes_limit = process.cgroup_processes_limit = why;
  process.shm_total_bytes = process.shm_used_bytes = why;
  process.disk_space = why;
  return facts;
}

}  // namespace

TEST_CASE("a GPU that computes confidentially and is not ready needs no fabric manager") {
  Facts facts = healthy();
  facts.driver.cuda_init = 802;
  REQUIRE(diagnose_with(ground_rules(), facts, {}).findings.front().id == "DRV15");
  first_answer(facts, [](auto& gpu) { gpu.cc_ready = false; });
  const Diagnosis found = diagnose_with(ground_rules(), facts, {});
  REQUIRE(found.findings.size() == 1);
  CHECK(found.findings.front().id == "DRV27");
}

TEST_CASE("a healthy machine is called healthy") {
  const Diagnosis diagnosis = diagnose_with(ground_rules(), healthy(), {});
  for (const auto& finding : diagnosis.findings) MESSAGE(finding.id << ": " << finding.title);
  CHECK(diagnosis.findings.empty());
}

TEST_CASE("each fault of a machine is the first finding, by its own rule") {
  std::vector<std::string> tried;
  for (const auto& mutations : {hardware_mutations(), module_mutations(), branch_mutations(),
                                state_mutations(), answer_mutations()}) {
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

TEST_CASE("harmless look-alikes of faults have no finding") {
  const std::vector<std::function<void(Facts&)>> looks{
      // The link is slow only because it is idle and in a low-power state.
      [](Facts& f) {
        first_gpu(f, [](auto& gpu) { gpu.link.gigatransfers = 2.5; });
        first_answer(f, [](auto& gpu) { gpu.utilization_percent = 0.0; });
      },
      // The node of nvidia_uvm does not exist yet: the first CUDA program will create it.
      [](Facts& f) {
        f.nvidia.nodes = std::vector{node("/dev/nvidia0")};
        f.nvidia.modprobe_helper = true;
        f.driver.cuda_init = Unreadable{"cuda_init", 0};
      },
      // The machine was suspended, but everything works afterwards.
      [](Facts& f) {
        f.machine.suspends = 3;
        log(f, "PM: suspend exit");
      },
      // The IOMMU is on, but the GPUs communicate over NVSwitches, whose fabric is ready.
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
      // Debian maps every host name to 127.0.1.1. This is harmless if no other machine takes part.
      [](Facts& f) { f.machine.host_name_address = std::string("127.0.1.1"); },
      // WSL's GPU is not on the PCI bus.
      [](Facts& f) {
        f.machine.is_wsl = true;
        f.machine.pci = std::vector<PciFunction>{};
        f.machine.modules = std::vector<std::string>{};
        f.nvidia.module_version = {};
      },
      // A virtual machine emulates the links, so their width means nothing.
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

TEST_CASE("a GPU that the driver does not list is missing only if this program would see it") {
  Facts facts = healthy();
  edit(facts.driver.gpus, [](auto& all) { all.pop_back(); });
  const auto found = [&] { return diagnose_with(ground_rules(), facts, {}).findings; };
  REQUIRE(found().size() == 1);
  CHECK(found().front().id == "DRV28");
  SUBCASE("a job's filter opens one node") {
    edit(facts.nvidia.nodes, [](auto& all) { all[1].node.open_error = EPERM; });
    CHECK(found().empty());
  }
  SUBCASE("nobody has made more nodes") {
    edit(facts.nodes.nvidia, [](auto& all) { all.erase(all.begin()); });
    CHECK(found().empty());
  }
  SUBCASE("a container was given one") {
    facts.container.kind = std::string("docker");
    CHECK(found().empty());
  }
  SUBCASE("the driver was told to leave one out") {
    facts.nvidia.parameters = std::map<std::string, std::string>{{"ExcludedGpus", "\"GPU-1\""}};
    CHECK(found().empty());
    facts.nvidia.parameters = std::map<std::string, std::string>{{"ExcludedGpus", "\"\""}};
    CHECK(found().size() == 1);
  }
  SUBCASE("what is wrong with the machine explains it") {
    log(facts, "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)");
    REQUIRE(found().size() == 2);
    CHECK(found().back().id == "DRV28");
  }
}

TEST_CASE("hostile file contents are neither run by a pasted fix nor obeyed by a terminal") {
  Facts facts = healthy();
  unload(facts);
  facts.machine.kernel = std::string("6.8\033[2J; rm -rf ~");
  const Diagnosis diagnosis = diagnose_with(ground_rules(), facts, {});
  const auto& finding = diagnosis.findings.front();
  REQUIRE(finding.id == "DRV02");
  CHECK(finding.title.find('\033') == std::string::npos);
  const std::string& command = finding.fix.front().command;
  CHECK(command.find('\033') == std::string::npos);
  CHECK(command.find("-k '6.8") != std::string::npos);
  CHECK(command.find("rm -rf ~' ") != std::string::npos);
}

TEST_CASE("unreadable facts are neither fine nor wrong") {
  const Diagnosis diagnosis = diagnose_with(ground_rules(), all_unreadable(), {});
  for (const auto& finding : diagnosis.findings) MESSAGE(finding.id << ": " << finding.title);
  CHECK(diagnosis.findings.empty());
  for (const std::string& id : diagnosis.checked) MESSAGE(id << " says that it has looked");
  CHECK(diagnosis.checked.empty());
  CHECK(diagnosis.not_checked.size() == ground_rules().size());
}

}  // namespace ground_test
