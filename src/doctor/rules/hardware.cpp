// Rules HW: what the bus shows, before any driver has a say.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/rule.hpp"

namespace berth::doctor {
namespace {

constexpr std::uint32_t kNvidia = 0x10de, kAmd = 0x1002, kIntel = 0x8086;

bool is_known_gpu(const PciFunction& one) {
  return one.is_gpu() && (one.vendor == kNvidia || one.vendor == kAmd || one.vendor == kIntel);
}

void no_gpu_on_bus(Examination& look) {
  const auto* functions = look.see(look.facts.machine.pci);
  if (functions == nullptr || std::any_of(functions->begin(), functions->end(), is_known_gpu))
    return;
  // That is how most machines are, and nothing to mend, unless somebody has installed a driver.
  const auto* modules = look.see(look.facts.machine.modules);
  const bool expected =
      modules != nullptr && std::find(modules->begin(), modules->end(), "nvidia") != modules->end();
  Finding& finding = look.found(text("there is no GPU on the PCI bus"));
  if (!expected) finding.severity = Severity::kInfo;
  finding.evidence.push_back(text_n("{} PCI function, none of them a GPU of NVIDIA, AMD or Intel",
                                    "{} PCI functions, none of them a GPU of NVIDIA, AMD or Intel",
                                    static_cast<long long>(functions->size()), functions->size()));
  finding.fix.push_back({"lspci -nn", text("a card that should be here: check slot, power, BIOS, "
                                           "and in a virtual machine the passthrough")});
}

void gpu_unbound(Examination& look) {
  const auto* functions = look.see(look.facts.machine.pci);
  if (functions == nullptr) return;
  for (const PciFunction& one : *functions) {
    if (!is_known_gpu(one) || !look.missing(one.driver)) continue;
    Finding& finding = look.found(text("no driver is bound to the GPU at {}", one.address));
    finding.evidence.push_back(
        fmt::format("/sys/bus/pci/devices/{}/driver: {}", one.address, tr("not there")));
    finding.fix.push_back({one.vendor == kNvidia ? "sudo modprobe nvidia"
                           : one.vendor == kAmd  ? "sudo modprobe amdgpu"
                                                 : "sudo modprobe xe || sudo modprobe i915",
                           text("then read why it refused, if it did: sudo dmesg | tail")});
  }
}

void gpu_bound_elsewhere(Examination& look) {
  const auto* functions = look.see(look.facts.machine.pci);
  if (functions == nullptr) return;
  constexpr auto kOthers = std::to_array<std::string_view>({"nouveau", "vfio-pci", "nvidiafb"});
  for (const PciFunction& one : *functions) {
    if (one.vendor != kNvidia || !one.is_gpu()) continue;
    const std::string* driver = look.see(one.driver);
    if (driver == nullptr || std::find(kOthers.begin(), kOthers.end(), *driver) == kOthers.end())
      continue;
    Finding& finding =
        look.found(text("{} has the GPU at {}, so NVIDIA's driver has not", *driver, one.address));
    finding.evidence.push_back(
        fmt::format("/sys/bus/pci/devices/{}/driver → {}", one.address, *driver));
    if (*driver == "vfio-pci") {
      finding.fix.push_back(
          {"", text("it was given to a virtual machine: take it back there first")});
    } else {
      finding.fix.push_back(
          {fmt::format("echo 'blacklist {}' | sudo tee /etc/modprobe.d/blacklist-{}.conf\n"
                       "sudo update-initramfs -u && sudo reboot",
                       *driver, *driver),
           ""});
    }
  }
}

constexpr auto kRules = std::to_array<Rule>({
    {"HW01", Layer::kHardware, Severity::kFatal, false, msgid("no GPU on the PCI bus"),
     "DRV* CTR* ENV* LIB* FW*", no_gpu_on_bus},
    {"HW02", Layer::kHardware, Severity::kFatal, false, msgid("a GPU without a driver"),
     "DRV* LIB* FW*", gpu_unbound},
    {"HW03", Layer::kHardware, Severity::kFatal, false, msgid("another driver has the GPU"),
     "DRV* LIB* FW*", gpu_bound_elsewhere},
});

}  // namespace

std::span<const Rule> hardware_rules() {
  return kRules;
}

}  // namespace berth::doctor
