// Rules DRV19 to DRV27, except for Xids: what the driver reports about its GPUs.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/queries.hpp"

namespace berth::doctor {
namespace {

std::string named(const GpuAnswer& gpu) {
  const std::string name = printable(gpu.name.value_or(""));
  return name.empty() ? gpu.pci_address : fmt::format("{} ({})", gpu.pci_address, name);
}

void mig_empty(Examination& look) {
  for (const GpuAnswer& gpu : answers(look)) {
    const bool* enabled = look.see(gpu.mig_enabled);
    if (enabled == nullptr) continue;
    if (gpu.mig_pending && *gpu.mig_pending != *enabled) {
      Finding& finding = look.found(text("GPU {} needs a reset to turn MIG {}", gpu.pci_address,
                                         *gpu.mig_pending ? tr("on") : tr("off")));
      finding.severity = Severity::kWarning;
      finding.evidence.push_back(
          text("NVML: the current MIG mode differs from the pending MIG mode"));
      finding.fix.push_back(
          {fmt::format("sudo nvidia-smi --gpu-reset -i {}", pasted(gpu.pci_address)),
           text("ends the programs on the GPU")});
      continue;
    }
    if (!*enabled) continue;
    const auto* instances = look.see(gpu.mig_instances);
    if (instances == nullptr || !instances->empty()) continue;
    Finding& finding = look.found(
        text("MIG is on for GPU {}, but no MIG instance exists, so CUDA cannot use the GPU",
             gpu.pci_address));
    finding.evidence.push_back(named(gpu));
    finding.fix.push_back(
        {fmt::format("sudo nvidia-smi mig -i {} -lgip", pasted(gpu.pci_address)),
         text("lists the possible instances; create one with: sudo nvidia-smi mig -cgi ID -C")});
    finding.fix.push_back({fmt::format("sudo nvidia-smi -i {} -mig 0", pasted(gpu.pci_address)),
                           text("turn MIG off")});
  }
}

void compute_mode(Examination& look) {
  for (const GpuAnswer& gpu : answers(look)) {
    const std::string* mode = look.see(gpu.compute_mode);
    if (mode == nullptr || *mode == "default") continue;
    const bool held = gpu.processes_memory_bytes.value_or(0) > 0;
    const bool prohibited = *mode == "prohibited";
    // If an MPS server uses the GPU, other programs can still share it.
    const auto& server = look.facts.nvidia.mps_control;
    if (!prohibited && look.facts.driver.cuda_init.value_or(1) == 0 &&
        (look.see(server) != nullptr || server.is_unreadable()))
      continue;
    Finding& finding = look.found(
        prohibited ? text("GPU {} is configured to reject all CUDA programs", gpu.pci_address)
        : held     ? text("GPU {} accepts only one program, and one is using it", gpu.pci_address)
                   : text("GPU {} accepts only one program", gpu.pci_address));
    // This is only information while no process uses the GPU. Some clusters set this mode on
    // purpose.
    if (!prohibited && !held) finding.severity = Severity::kInfo;
    finding.evidence.push_back(text("NVML: the GPU's compute mode is “{}”", printable(*mode)));
    finding.fix.push_back({fmt::format("sudo nvidia-smi -i {} -c 0", pasted(gpu.pci_address)),
                           text("lets several programs share the GPU again")});
    if (!prohibited)
      finding.fix.push_back(
          {"berth ps", text("end the process that uses the GPU; in a multi-rank program, each rank "
                            "must select its own GPU before its first CUDA call")});
  }
}

void vgpu_licence(Examination& look) {
  for (const GpuAnswer& gpu : answers(look)) {
    const std::string* licence = look.see(gpu.vgpu_licence);
    if (licence == nullptr || *licence != "unlicensed") continue;
    Finding& finding = look.found(
        text("the vGPU {} has no licence: it is throttled, and some programs cannot start",
             gpu.pci_address));
    finding.evidence.push_back(named(gpu));
    finding.fix.push_back({"sudo systemctl restart nvidia-gridd && nvidia-smi -q | grep -i licen",
                           text("first copy the licence token to /etc/nvidia/ClientConfigToken")});
  }
}

void remap_pending(Examination& look) {
  for (const GpuAnswer& gpu : answers(look)) {
    const bool failed = look.see(gpu.remap_failed) && *gpu.remap_failed;
    const bool pending = (look.see(gpu.remap_pending) && *gpu.remap_pending) ||
                         (look.see(gpu.retired_pages_pending) && *gpu.retired_pages_pending);
    if (!failed && !pending) continue;
    Finding& finding =
        look.found(failed ? text("GPU {} has run out of spare memory rows", gpu.pci_address)
                          : text("GPU {} has bad memory, which will be retired at the next reset",
                                 gpu.pci_address));
    finding.evidence.push_back(named(gpu));
    finding.evidence.push_back(failed
                                   ? text("NVML: remapping a row has failed")
                                   : text("NVML: a row remapping or page retirement is pending"));
    if (failed) {
      finding.fix.push_back({"sudo nvidia-bug-report.sh", text("have the card replaced")});
      continue;
    }
    finding.fix.push_back(
        {fmt::format("sudo nvidia-smi --gpu-reset -i {}", pasted(gpu.pci_address)),
         text("ends the programs on the GPU; if the reset is refused, reboot")});
  }
}

void ecc_uncorrected(Examination& look) {
  for (const GpuAnswer& gpu : answers(look)) {
    const auto* count = look.see(gpu.ecc_uncorrected);
    if (count == nullptr || *count == 0) continue;
    Finding& finding = look.found(text_n("GPU {1} had {0} memory error that ECC could not correct",
                                         "GPU {1} had {0} memory errors that ECC could not correct",
                                         static_cast<long long>(*count), *count, gpu.pci_address));
    finding.evidence.push_back(named(gpu));
    finding.evidence.push_back(text("NVML counts these errors since the driver was loaded"));
    finding.fix.push_back(
        {fmt::format("sudo nvidia-smi --gpu-reset -i {}", pasted(gpu.pci_address)),
         text("ends the programs on the GPU; until the reset, use other GPUs")});
    finding.fix.push_back({"", text("if the error comes back: have the card replaced")});
  }
}

void cc_not_ready(Examination& look) {
  for (const GpuAnswer& gpu : answers(look)) {
    const bool* ready = look.see(gpu.cc_ready);
    if (ready == nullptr || *ready) continue;
    Finding& finding =
        look.found(text("GPU {} is in confidential computing mode, but not set to the ready state",
                        gpu.pci_address));
    finding.evidence.push_back(named(gpu));
    finding.fix.push_back(
        {"sudo nvidia-smi conf-compute -srs 1", text("run this after the attestation of the GPU")});
  }
}

/// What a cuInit error code means, for codes that no other rule reports.
const char* meaning_of(int code) {
  switch (code) {
    case 2:
      return msgid("out of GPU memory, or the process cannot map more memory");
    case 3:
    case 46:
      return msgid("the GPU is busy or was lost while CUDA started");
    case 100:
      return msgid("CUDA sees no GPU, though NVML does");
    case 304:
      return msgid("a call to the operating system failed");
    case 801:
      return msgid("not supported by this kind of GPU or vGPU");
    default:
      return msgid("see this CUresult code in the CUDA driver API's documentation");
  }
}

/// Whether other rules report this cuInit error code and its causes.
bool is_known_code(int code) {
  constexpr auto kKnown =
      std::to_array({0, 34, 35, 101, 719, 802, 803, 804, 805, 806, 807, 808, 809, 999});
  return std::find(kKnown.begin(), kKnown.end(), code) != kKnown.end();
}

/// Whether nothing else explains the error: the module is loaded, all nodes can be opened, and the
/// log has no error of the driver.
bool ways_are_open(Examination& look) {
  const auto* nodes = look.see(look.facts.nvidia.nodes);
  if (nodes == nullptr || nodes->empty() || !is_loaded(look, "nvidia") ||
      std::any_of(nodes->begin(), nodes->end(),
                  [](const DeviceNode& one) { return one.node.open_error.value_or(0) != 0; }))
    return false;
  for (const char* words : {"Xid (", "RmInitAdapter", "API mismatch", "fallen off the bus"})
    if (!newest_line(look, {"NVRM", words}).empty()) return false;
  return true;
}

void advise_restart(Finding& finding) {
  finding.fix.push_back({"sudo dmesg | grep -iE 'nvrm|nvidia' | tail -30",
                         text("shows the kernel's messages about the driver")});
  finding.fix.push_back(
      {"sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia",
       text("reloads the driver if no program uses the GPU; otherwise reboot")});
}

/// Whether the administrator configured the driver to exclude GPUs.
bool excludes_gpus(Examination& look) {
  const auto& all = look.facts.nvidia.parameters;
  if (!all) return false;
  for (const char* name : {"ExcludedGpus", "GpuBlacklist", "AssignGpus"})
    if (const auto one = all->find(name);
        one != all->end() && trim(one->second) != "\"\"" && !trim(one->second).empty())
      return true;
  return false;
}

/// Reports GPUs that are bound to the driver, but that NVML does not list. Returns false if the
/// process may open only some GPU nodes, because NVML then correctly lists only those GPUs.
bool gpus_unlisted(Examination& look) {
  constexpr int kNoDevice = 100;
  const auto& driver = look.facts.driver;
  const auto* listed = look.see_whole(driver.gpus);
  const auto gpu_nodes = look.facts.nodes.nvidia_gpus();
  if (driver.nvml_init.value_or(1) != 0 || listed == nullptr) return false;
  std::vector<const PciFunction*> held = nvidia_gpus(look);
  std::erase_if(held, [](const PciFunction* gpu) {
    return gpu->driver.value_or("") != "nvidia" || gpu->is_asleep();
  });
  if (listed->size() >= held.size() || excludes_gpus(look)) return false;
  if (listed->empty() && driver.cuda_init.value_or(kNoDevice) != kNoDevice) return false;
  if (!listed->empty() &&
      (look.facts.machine.in_container || !look.missing(look.facts.container.kind) ||
       gpu_nodes.value_or({}).size() <= listed->size()))
    return false;
  Finding& finding = look.found(
      listed->empty() ? text_n("the driver is bound to {} GPU on the bus, but lists none",
                               "the driver is bound to {} GPUs on the bus, but lists none",
                               static_cast<long long>(held.size()), held.size())
                      : text("the driver is bound to {} GPUs on the bus, but lists {}", held.size(),
                             listed->size()));
  if (!listed->empty()) finding.severity = Severity::kError;
  finding.evidence.push_back(text_n("NVML lists {1} of {0} GPU", "NVML lists {1} of {0} GPUs",
                                    static_cast<long long>(held.size()), held.size(),
                                    listed->size()));
  for (const PciFunction* gpu : held)
    if (std::none_of(listed->begin(), listed->end(),
                     [&](const GpuAnswer& one) { return one.pci_address == gpu->address; }))
      finding.evidence.push_back(
          fmt::format("/sys/bus/pci/devices/{}/driver → nvidia", gpu->address));
  if (driver.cuda_init) finding.evidence.push_back(cuda_says(*driver.cuda_init));
  advise_restart(finding);
  if (!listed->empty())
    finding.fix.push_back(
        {"nvidia-smi drain -q", text("shows whether a GPU was excluded on purpose")});
  return true;
}

/// Reports an error of the driver for which no other rule has an explanation.
void unexplained(Examination& look) {
  if (!may_concern_nvidia(look.facts) || look.facts.machine.is_wsl ||
      look.facts.machine.is_jetson || !ways_are_open(look))
    return;
  constexpr int kLost = 15, kMismatch = 18, kUnknown = 999;
  const auto& driver = look.facts.driver;
  for (const GpuAnswer& gpu : answers(look)) {
    const int code = gpu.error.value_or(0);
    if (code == 0 || code == kLost) continue;
    Finding& finding = look.found(text("GPU {}: NVML returns error {}", gpu.pci_address, code));
    finding.evidence = {named(gpu), fmt::format("NVML: {}", code)};
    advise_restart(finding);
    return;
  }
  const int* nvml = look.see(driver.nvml_init);
  const int* cuda = look.see(driver.cuda_init);
  if (nvml != nullptr && *nvml != 0 && *nvml != kMismatch &&
      !(*nvml == kUnknown && cuda != nullptr && *cuda == kUnknown &&
        look.facts.machine.in_container)) {
    Finding& finding =
        look.found(text("the driver is loaded, but its library NVML returns error {}", *nvml));
    finding.evidence.push_back(nvml_says(look));
    advise_restart(finding);
    return;
  }
  if (gpus_unlisted(look)) return;
  if (cuda == nullptr || is_known_code(*cuda) || nvml == nullptr || answers(look).empty() ||
      !look.missing(look.facts.process.variable("CUDA_VISIBLE_DEVICES")))
    return;
  if (std::any_of(answers(look).begin(), answers(look).end(), [](const GpuAnswer& gpu) {
        return gpu.compute_mode.value_or("default") != "default" ||
               (gpu.mig_enabled.value_or(false) && gpu.mig_instances.value_or({}).empty());
      }))
    return;
  Finding& finding = look.found(text("CUDA does not start: cuInit returns error {}", *cuda));
  finding.evidence = {fmt::format("cuInit(0): {}: {}", *cuda, tr(meaning_of(*cuda))),
                      "nvmlInit: 0"};
  advise_restart(finding);
}

constexpr auto kDriverAnswersRules = std::to_array<Rule>({
    {"DRV19", Layer::kDriver, Severity::kFatal, true, msgid("MIG on, without instances"),
     "ENV04 FW*", mig_empty},
    {"DRV20", Layer::kDriver, Severity::kError, true, msgid("a compute mode that rejects programs"),
     "FW*", compute_mode},
    {"DRV21", Layer::kDriver, Severity::kError, true, msgid("a vGPU without a licence"), "RT*",
     vgpu_licence},
    {"DRV25", Layer::kDriver, Severity::kError, true, msgid("bad memory that needs a reset"),
     "DRV26", remap_pending},
    {"DRV26", Layer::kDriver, Severity::kError, true,
     msgid("memory errors that ECC could not correct"), "", ecc_uncorrected},
    {"DRV27", Layer::kDriver, Severity::kFatal, true,
     msgid("confidential computing that is not ready"), "DRV15 FW*", cc_not_ready},
    {"DRV28", Layer::kDriver, Severity::kFatal, false,
     msgid("a driver that fails for an unknown reason"), "", unexplained},
});

}  // namespace

std::span<const Rule> driver_answer_rules() {
  return kDriverAnswersRules;
}

}  // namespace berth::doctor
