// Rules DRV19 to DRV27, but for Xids: what the driver itself says of its GPUs.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/sight.hpp"

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
      Finding& finding = look.found(text("GPU {} waits for a reset that turns MIG {}",
                                         gpu.pci_address, *gpu.mig_pending ? tr("on") : tr("off")));
      finding.severity = Severity::kWarning;
      finding.evidence.push_back(text("NVML: MIG mode now and after the next reset differ"));
      finding.fix.push_back(
          {fmt::format("sudo nvidia-smi --gpu-reset -i {}", pasted(gpu.pci_address)),
           text("ends what runs on it")});
      continue;
    }
    if (!*enabled) continue;
    const auto* instances = look.see(gpu.mig_instances);
    if (instances == nullptr || !instances->empty()) continue;
    Finding& finding = look.found(
        text("MIG is on for GPU {}, but it has no instances: there is nothing to compute on",
             gpu.pci_address));
    finding.evidence.push_back(named(gpu));
    finding.fix.push_back(
        {fmt::format("sudo nvidia-smi mig -i {} -lgip", pasted(gpu.pci_address)),
         text("lists what fits; create one with: sudo nvidia-smi mig -cgi ID -C")});
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
    // An MPS server is the one program, and lets all others in.
    const auto& server = look.facts.nvidia.mps_control;
    if (!prohibited && look.facts.driver.cuda_init.value_or(1) == 0 &&
        (look.see(server) != nullptr || server.is_unreadable()))
      continue;
    Finding& finding =
        look.found(prohibited ? text("GPU {} is set to take no programs at all", gpu.pci_address)
                   : held ? text("GPU {} takes one program only, and one has it", gpu.pci_address)
                          : text("GPU {} takes one program only", gpu.pci_address));
    // Without a holder that is what some clusters want, and it keeps nobody out.
    if (!prohibited && !held) finding.severity = Severity::kInfo;
    finding.evidence.push_back(text("NVML: its compute mode is “{}”", printable(*mode)));
    finding.fix.push_back({fmt::format("sudo nvidia-smi -i {} -c 0", pasted(gpu.pci_address)),
                           text("lets several programs share it again")});
    if (!prohibited)
      finding.fix.push_back({"berth ps", text("end who has it; a program with several ranks must "
                                              "set its own GPU before its first CUDA call")});
  }
}

void vgpu_licence(Examination& look) {
  for (const GpuAnswer& gpu : answers(look)) {
    const std::string* licence = look.see(gpu.vgpu_licence);
    if (licence == nullptr || *licence != "unlicensed") continue;
    Finding& finding = look.found(
        text("the vGPU {} has no licence: it is slowed down, and some programs cannot start",
             gpu.pci_address));
    finding.evidence.push_back(named(gpu));
    finding.fix.push_back({"sudo systemctl restart nvidia-gridd && nvidia-smi -q | grep -i licen",
                           text("with the token in /etc/nvidia/ClientConfigToken")});
  }
}

void remap_pending(Examination& look) {
  for (const GpuAnswer& gpu : answers(look)) {
    const bool failed = look.see(gpu.remap_failed) && *gpu.remap_failed;
    const bool pending = (look.see(gpu.remap_pending) && *gpu.remap_pending) ||
                         (look.see(gpu.retired_pages_pending) && *gpu.retired_pages_pending);
    if (!failed && !pending) continue;
    Finding& finding = look.found(
        failed ? text("GPU {} has run out of spare memory rows", gpu.pci_address)
               : text("GPU {} has bad memory, which a reset takes out of use", gpu.pci_address));
    finding.evidence.push_back(named(gpu));
    finding.evidence.push_back(failed ? text("NVML: remapping a row has failed")
                                      : text("NVML: a remapped row or retired page is pending"));
    if (failed) {
      finding.fix.push_back({"sudo nvidia-bug-report.sh", text("have the card replaced")});
      continue;
    }
    finding.fix.push_back(
        {fmt::format("sudo nvidia-smi --gpu-reset -i {}", pasted(gpu.pci_address)),
         text("ends what runs on it; where that is refused, reboot")});
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
    finding.evidence.push_back(text("NVML: counted since the driver was loaded"));
    finding.fix.push_back(
        {fmt::format("sudo nvidia-smi --gpu-reset -i {}", pasted(gpu.pci_address)),
         text("ends what runs on it; run jobs elsewhere until then")});
    finding.fix.push_back({"", text("if it comes back: have the card replaced")});
  }
}

void cc_not_ready(Examination& look) {
  for (const GpuAnswer& gpu : answers(look)) {
    const bool* ready = look.see(gpu.cc_ready);
    if (ready == nullptr || *ready) continue;
    Finding& finding = look.found(text(
        "GPU {} computes confidentially, and nobody has said that it is ready", gpu.pci_address));
    finding.evidence.push_back(named(gpu));
    finding.fix.push_back({"sudo nvidia-smi conf-compute -srs 1", text("after its attestation")});
  }
}

constexpr auto kRules = std::to_array<Rule>({
    {"DRV19", Layer::kDriver, Severity::kFatal, false, msgid("MIG on, without instances"),
     "ENV04 FW*", mig_empty},
    {"DRV20", Layer::kDriver, Severity::kError, true,
     msgid("a compute mode that keeps programs out"), "FW*", compute_mode},
    {"DRV21", Layer::kDriver, Severity::kError, true, msgid("a vGPU without a licence"), "RT*",
     vgpu_licence},
    {"DRV25", Layer::kDriver, Severity::kError, true, msgid("bad memory that waits for a reset"),
     "DRV26", remap_pending},
    {"DRV26", Layer::kDriver, Severity::kError, true, msgid("memory errors beyond ECC"), "",
     ecc_uncorrected},
    {"DRV27", Layer::kDriver, Severity::kFatal, false,
     msgid("confidential computing that is not ready"), "DRV15 FW*", cc_not_ready},
});

}  // namespace

std::span<const Rule> driver_answer_rules() {
  return kRules;
}

}  // namespace berth::doctor
