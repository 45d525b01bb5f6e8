// Rules DRV15, DRV16, DRV22, DRV37: services of the driver (fabric manager, persistence daemon,
// MPS, IMEX).
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

constexpr int kCudaNotReady = 802, kCudaMps = 805, kCudaMpsFull = 808;

/// The problem if the fabric manager and the driver have different versions; "" if the versions are
/// equal or unknown.
std::string fabric_version_trouble(const NvidiaFacts& nvidia) {
  const std::string module = nvidia.module_version.value_or("");
  const std::string service = nvidia.fabric_manager.value_or("");
  if (!module.empty() && !service.empty() && !may_be_same(module, service))
    return text("the fabric manager has version {}, the driver {}: both must be the same",
                printable(service), printable(module));
  return "";
}

struct Fabric {
  int switches = 0;
  bool unfinished = false;  // a GPU reports that the setup of its fabric is not finished
  bool finished = false;
  std::string state;
};

Fabric fabric_of(Examination& look) {
  Fabric fabric;
  if (const auto* functions = look.see(look.facts.machine.pci))
    for (const PciFunction& one : *functions) fabric.switches += one.is_nvswitch() ? 1 : 0;
  for (const GpuAnswer& gpu : look.facts.driver.gpus.value_or({})) {
    if (!gpu.fabric_state) continue;
    fabric.finished = fabric.finished || *gpu.fabric_state == "completed";
    if (*gpu.fabric_state != "completed") fabric.unfinished = true;
    if (*gpu.fabric_state != "completed" || fabric.state.empty()) fabric.state = *gpu.fabric_state;
  }
  return fabric;
}

void describe_fabric(Examination& look, Finding& finding, const Fabric& fabric, bool runs) {
  const auto& facts = look.facts;
  if (fabric.switches > 0)
    finding.evidence.push_back(text_n("{} NVSwitch on the bus", "{} NVSwitches on the bus",
                                      fabric.switches, fabric.switches));
  if (facts.machine.processes && !runs)
    finding.evidence.push_back(text("the process nv-fabricmanager is not running"));
  if (facts.nvidia.fabric_manager.is_absent())
    finding.evidence.push_back(text("/usr/bin/nv-fabricmanager does not exist"));
  if (!fabric.state.empty())
    finding.evidence.push_back(text("NVML: the fabric's state is “{}”", printable(fabric.state)));
  if (facts.driver.cuda_init) finding.evidence.push_back(cuda_says(*facts.driver.cuda_init));
  if (facts.machine.in_container || (facts.machine.is_virtual && fabric.switches == 0)) {
    finding.fix.push_back({"", text("the host sets up the fabric: report this to the machine's "
                                    "provider, or use another machine")});
    return;
  }
  const std::string version = facts.nvidia.module_version.value_or("");
  const std::string branch = version.empty() ? "<branch>" : std::to_string(branch_of(version));
  if (facts.nvidia.fabric_manager)
    finding.fix.push_back({"sudo systemctl enable --now nvidia-fabricmanager", ""});
  finding.fix.push_back(on_system_between(
      look, "fabric_manager", "", "sudo systemctl enable --now nvidia-fabricmanager",
      text("install the same version as the driver; then restart the programs"), branch));
}

/// Whether a GPU waits for the attestation of confidential computing. If so, CUDA also returns
/// error 802, and DRV27 reports it.
bool waits_for_attestation(Examination& look) {
  const auto& gpus = answers(look);
  return std::any_of(gpus.begin(), gpus.end(),
                     [](const GpuAnswer& gpu) { return !gpu.cc_ready.value_or(true); });
}

void fabric_manager(Examination& look) {
  if (!driver_runs(look)) return;
  const Fabric fabric = fabric_of(look);
  const int* cuda = look.see(look.facts.driver.cuda_init);
  const bool refused = cuda != nullptr && *cuda == kCudaNotReady;
  if (fabric.switches == 0 && !fabric.unfinished && (!refused || waits_for_attestation(look)))
    return;
  if (cuda != nullptr && *cuda == 0) return;
  if (const auto& log = look.facts.machine.kernel_log;
      log && !newest_line(*log, {"devmem_alloc_pagemap"}).empty())
    return;  // 802 has another cause, which DRV14 reports
  const auto* processes = look.see(look.facts.machine.processes);
  const auto has = [&](std::string_view name) {
    return processes != nullptr &&
           std::find(processes->begin(), processes->end(), name) != processes->end();
  };
  // The kernel truncates names of processes to 15 characters.
  const bool runs = has("nv-fabricmanage");
  const std::string trouble = fabric_version_trouble(look.facts.nvidia);
  // Containers and virtual machines do not show the processes of the host.
  const bool sees_host = !look.facts.machine.in_container && processes != nullptr;
  const bool absent = fabric.switches > 0 && sees_host && !runs && !fabric.finished;
  if (!refused && !fabric.unfinished && !absent && trouble.empty()) return;
  Finding& finding =
      look.found(!trouble.empty() ? trouble
                 : absent || (refused && !runs && sees_host)
                     ? text("the fabric manager is not running; without it CUDA does not start on "
                            "this machine's GPUs")
                     : text("the GPUs' fabric is not ready, so CUDA does not start"));
  describe_fabric(look, finding, fabric, runs);
}

void persistence_off(Examination& look) {
  if (!driver_runs(look) || look.facts.machine.is_laptop) return;
  const auto* gpus = look.see(look.facts.driver.gpus);
  if (gpus == nullptr) return;
  const auto names = look.facts.machine.processes.value_or({});
  if (std::any_of(names.begin(), names.end(),
                  [](const std::string& name) { return name.starts_with("nvidia-persiste"); }))
    return;
  for (const PciFunction* gpu : nvidia_gpus(look)) {
    constexpr std::uint32_t kWithoutDisplay = 0x0302;
    if (gpu->class_code >> 8 != kWithoutDisplay) continue;
    for (const GpuAnswer& answer : *gpus) {
      if (answer.pci_address != gpu->address || !answer.persistence || *answer.persistence)
        continue;
      Finding& finding = look.found(
          text("persistence mode is off: every first use of GPU {} waits for its initialization",
               gpu->address));
      finding.evidence.push_back(text("the process nvidia-persistenced is not running"));
      finding.fix.push_back({"sudo systemctl enable --now nvidia-persistenced", ""});
      return;
    }
  }
}

void mps(Examination& look) {
  if (!may_concern_nvidia(look.facts)) return;
  const auto named = look.facts.process.variable("CUDA_MPS_PIPE_DIRECTORY");
  const int* cuda = look.see(look.facts.driver.cuda_init);
  // 805: no connection to the MPS server; 806, 807: the server failed or is not ready; 808, 809:
  // the server has too many clients.
  if (cuda == nullptr || *cuda < kCudaMps || *cuda > kCudaMpsFull + 1) return;
  Finding& finding =
      look.found(*cuda < kCudaMpsFull
                     ? text("CUDA cannot reach this GPU's MPS daemon")
                     : text("the MPS daemon of this GPU serves its maximum number of programs"));
  finding.evidence.push_back(cuda_says(*cuda));
  finding.evidence.push_back(named ? "CUDA_MPS_PIPE_DIRECTORY=" + printable(*named)
                                   : text("CUDA_MPS_PIPE_DIRECTORY is not set"));
  const auto& control = look.facts.nvidia.mps_control;
  const auto& identity = look.facts.process.identity;
  if (control && identity && control->uid != identity->uid)
    finding.evidence.push_back(text("the daemon belongs to user {}, this process to user {}",
                                    control->uid, identity->uid));
  if (control.is_absent())
    finding.evidence.push_back(
        text("there is no {}", printable(named.value_or("/tmp/nvidia-mps")) + "/control"));
  if (look.facts.machine.in_container)
    finding.fix.push_back(
        {"docker run --ipc=host -v /tmp/nvidia-mps:/tmp/nvidia-mps "
         "-e CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps …",
         text("shares the daemon's pipe with the container")});
  finding.fix.push_back({"nvidia-cuda-mps-control -d",
                         text("starts the daemon; run this as the same user as the programs")});
  finding.fix.push_back({"echo quit | sudo nvidia-cuda-mps-control",
                         text("ends the daemon: programs then use the GPU without MPS")});
}

/// Reports a missing IMEX channel. On GB200 and GB300, NVLink connects several machines, which
/// share memory through such a channel.
void no_imex_channel(Examination& look) {
  const auto& gpus = answers(look);
  const bool linked = std::any_of(gpus.begin(), gpus.end(), [](const GpuAnswer& gpu) {
    const std::string name = gpu.name.value_or("");
    return gpu.fabric_state.value_or("") == "completed" &&
           (contains(name, "GB200") || contains(name, "GB300"));
  });
  if (!linked || variable_or_empty(look, "NCCL_MNNVL_ENABLE") == "0") return;
  const auto* channels = look.see(look.facts.nvidia.imex_channels);
  if (look.facts.nvidia.imex_channels.is_unreadable() ||
      (channels != nullptr && !channels->empty()))
    return;
  Finding& finding = look.found(
      text("there is no IMEX channel: these GPUs cannot reach GPUs of other machines over NVLink"));
  // A job on one machine needs no IMEX channel.
  if (!spans_machines(look)) finding.severity = Severity::kInfo;
  finding.evidence = {fmt::format("/dev/nvidia-caps-imex-channels/channel0: {}", tr("missing")),
                      text("NVML: the fabric's state is “{}”", "completed"),
                      "https://github.com/NVIDIA/nccl/issues/1925"};
  if (look.facts.machine.in_container)
    finding.fix.push_back({"docker run --gpus all -e NVIDIA_IMEX_CHANNELS=0 IMAGE",
                           text("in Kubernetes, use a ComputeDomain of NVIDIA's DRA driver")});
  else
    finding.fix.push_back(
        {"echo 'options nvidia NVreg_CreateImexChannel0=1' | sudo tee "
         "/etc/modprobe.d/nvidia-imex.conf\nsudo systemctl enable --now nvidia-imex && sudo reboot",
         text("first write the addresses of all machines in the NVLink domain to "
              "/etc/nvidia-imex/nodes_config.cfg")});
  finding.fix.push_back(
      {"export NCCL_MNNVL_ENABLE=0", text("makes NCCL use the network until the channel exists")});
}

constexpr auto kDriverServicesRules = std::to_array<Rule>({
    {"DRV15", Layer::kDriver, Severity::kFatal, true,
     msgid("NVSwitches without a running fabric manager"), "DRV13 FW* RT*", fabric_manager},
    {"DRV16", Layer::kDriver, Severity::kInfo, false, msgid("persistence mode off on a server"), "",
     persistence_off},
    {"DRV22", Layer::kDriver, Severity::kError, true, msgid("an MPS daemon that cannot be reached"),
     "FW*", mps},
    {"DRV37", Layer::kDriver, Severity::kWarning, true,
     msgid("NVLink between machines without an IMEX channel"), "", no_imex_channel},
});

}  // namespace

std::span<const Rule> driver_service_rules() {
  return kDriverServicesRules;
}

}  // namespace berth::doctor
