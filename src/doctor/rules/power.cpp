// Rule RT17: settings that save power and thereby slow the GPU down.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

bool has_reason(const GpuAnswer& gpu, std::string_view reason) {
  const auto reasons = gpu.throttle.value_or({});
  return std::find(reasons.begin(), reasons.end(), reason) != reasons.end();
}

/// Reports a laptop whose GPU is limited to its base power. More power needs mains power, a
/// matching profile of the firmware, and since Ampere a daemon that shifts power from the CPU.
void laptop(Examination& look) {
  const auto* processes = look.see(look.facts.machine.processes);
  if (processes == nullptr) return;
  const bool daemon =
      std::find(processes->begin(), processes->end(), "nvidia-powerd") != processes->end();
  const bool battery = look.facts.machine.on_battery.value_or(false);
  const std::string profile = look.facts.machine.power_profile.value_or("");
  const bool quiet = profile == "low-power" || profile == "quiet" || profile == "cool";
  for (const GpuAnswer& gpu : answers(look)) {
    // An idle GPU is never throttled.
    if (!has_reason(gpu, "sw_power_cap") || gpu.utilization_percent.value_or(0) < 50) continue;
    const std::string capability = gpu.compute_capability.value_or("");
    const bool boosts = !is_older(capability, "8.6");
    if (!battery && !quiet && (daemon || !boosts)) continue;
    Finding& finding = look.found(
        text("this laptop's current power setting limits GPU {}, which could use more power",
             gpu.pci_address));
    finding.evidence.push_back(
        text("NVML: sw_power_cap at {} % GPU utilization", *gpu.utilization_percent));
    if (const auto* limit = look.see(gpu.power_limit_milliwatts))
      finding.evidence.push_back(text("the power limit is {} W", *limit / 1000));
    if (battery) {
      finding.evidence.emplace_back("/sys/class/power_supply/*/online: 0");
      finding.fix.push_back(
          {"", text("plug in the laptop's own power supply: many laptops reduce power on USB")});
    }
    if (quiet) {
      finding.evidence.push_back("/sys/firmware/acpi/platform_profile: " + printable(profile));
      finding.fix.push_back({"powerprofilesctl set performance", ""});
    }
    if (!daemon && boosts) {
      finding.evidence.push_back(text("the process {} is not running", "nvidia-powerd"));
      finding.evidence.emplace_back("https://github.com/omacom/omarchy/issues/9678");
      finding.fix.push_back({"sudo systemctl enable --now nvidia-powerd",
                             text("starts Dynamic Boost; its service exits by itself if the laptop "
                                  "does not support it")});
    }
    return;
  }
}

void jetson(Examination& look) {
  const std::string* mode = look.see(look.facts.machine.jetson_mode);
  const std::string* full = look.see(look.facts.machine.jetson_full_mode);
  if (mode == nullptr || full == nullptr || mode->starts_with("MAXN")) return;
  Finding& finding =
      look.found(text("this Jetson is in power mode {}, but it also has the full-power mode {}",
                      printable(*mode), printable(*full)));
  finding.evidence = {"/var/lib/nvpmodel/status", "/etc/nvpmodel.conf: NAME=" + printable(*full)};
  finding.fix.push_back({fmt::format("sudo nvpmodel -m $(grep -oP 'ID=\\K[0-9]+(?= NAME={}[ >])' "
                                     "/etc/nvpmodel.conf | head -1) && sudo jetson_clocks",
                                     printable(*full)),
                         text("this mode needs a sufficient power supply and cooler")});
}

void saves_power(Examination& look) {
  if (look.facts.machine.is_jetson) return jetson(look);
  if (look.facts.machine.is_laptop && look.missing(look.facts.container.kind)) return laptop(look);
  look.see(look.facts.machine.on_battery);  // records it if the battery state is unreadable
}

constexpr auto kPowerRules = std::to_array<Rule>({
    {"RT17", Layer::kRuntime, Severity::kInfo, true, msgid("a GPU slowed down by power saving"), "",
     saves_power},
});

}  // namespace

std::span<const Rule> power_rules() {
  return kPowerRules;
}

}  // namespace berth::doctor
