// Rule RT17: a machine that saves power, and has its GPU do so.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/sight.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

bool has_reason(const GpuAnswer& gpu, std::string_view reason) {
  const auto reasons = gpu.throttle.value_or({});
  return std::find(reasons.begin(), reasons.end(), reason) != reasons.end();
}

/// Laptops give their GPU more than its base only where somebody asks them to: the supply, the
/// firmware's profile, and from Ampere on a daemon that moves power from the processor.
void laptop(Examination& look) {
  const auto* processes = look.see(look.facts.machine.processes);
  if (processes == nullptr) return;
  const bool daemon =
      std::find(processes->begin(), processes->end(), "nvidia-powerd") != processes->end();
  const bool battery = look.facts.machine.on_battery.value_or(false);
  const std::string profile = look.facts.machine.power_profile.value_or("");
  const bool quiet = profile == "low-power" || profile == "quiet" || profile == "cool";
  for (const GpuAnswer& gpu : answers(look)) {
    // Who does not work meets no limit.
    if (!has_reason(gpu, "sw_power_cap") || gpu.utilization_percent.value_or(0) < 50) continue;
    const std::string capability = gpu.compute_capability.value_or("");
    const bool boosts = compare_versions(capability, "8.6") >= 0;
    if (!battery && !quiet && (daemon || !boosts)) continue;
    Finding& finding = look.found(
        text("GPU {} works at the power that this laptop gives it now, and may have more",
             gpu.pci_address));
    finding.evidence.push_back(text("NVML: sw_power_cap at {} % use", *gpu.utilization_percent));
    if (const auto* limit = look.see(gpu.power_limit_milliwatts))
      finding.evidence.push_back(text("its limit is {} W", *limit / 1000));
    if (battery) {
      finding.evidence.emplace_back("/sys/class/power_supply/*/online: 0");
      finding.fix.push_back({"", text("plug its own supply in: by USB alone many give little")});
    }
    if (quiet) {
      finding.evidence.push_back("/sys/firmware/acpi/platform_profile: " + printable(profile));
      finding.fix.push_back({"powerprofilesctl set performance", ""});
    }
    if (!daemon && boosts) {
      finding.evidence.push_back(text("no process {}", "nvidia-powerd"));
      finding.evidence.emplace_back("https://github.com/omacom/omarchy/issues/9678");
      finding.fix.push_back({"sudo systemctl enable --now nvidia-powerd",
                             text("Dynamic Boost; where the laptop has none, it ends by itself")});
    }
    return;
  }
}

void jetson(Examination& look) {
  const std::string* mode = look.see(look.facts.machine.jetson_mode);
  const std::string* full = look.see(look.facts.machine.jetson_full_mode);
  if (mode == nullptr || full == nullptr || mode->starts_with("MAXN")) return;
  Finding& finding = look.found(
      text("this Jetson is in power mode {}, and has {}", printable(*mode), printable(*full)));
  finding.evidence = {"/var/lib/nvpmodel/status", "/etc/nvpmodel.conf: NAME=" + printable(*full)};
  finding.fix.push_back({fmt::format("sudo nvpmodel -m $(grep -oP 'ID=\\K[0-9]+(?= NAME={}[ >])' "
                                     "/etc/nvpmodel.conf | head -1) && sudo jetson_clocks",
                                     printable(*full)),
                         text("with a supply and a cooler for it")});
}

void saves_power(Examination& look) {
  if (look.facts.machine.is_jetson) return jetson(look);
  if (look.facts.machine.is_laptop && look.missing(look.facts.container.kind)) return laptop(look);
  look.see(look.facts.machine.on_battery);  // whether it is one
}

constexpr auto kRules = std::to_array<Rule>({
    {"RT17", Layer::kRuntime, Severity::kInfo, true, msgid("a GPU of a machine that saves power"),
     "", saves_power},
});

}  // namespace

std::span<const Rule> power_rules() {
  return kRules;
}

}  // namespace berth::doctor
