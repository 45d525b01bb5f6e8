// Rule CPU06: a program was compiled for instructions that the CPU lacks. Often the CPU is virtual,
// and its model has fewer features than the real CPU.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

using Flags = std::set<std::string, std::less<>>;

/// The first instruction set in `needs` that the CPU lacks; "" if it lacks none.
std::string lacking(const Flags& flags, const std::vector<std::string>& needs) {
  const auto one = std::find_if(needs.begin(), needs.end(),
                                [&](const std::string& need) { return !flags.contains(need); });
  return one == needs.end() ? "" : *one;
}

void advise(Examination& look, Finding& finding, const Flags& flags) {
  if (look.facts.machine.is_virtual || flags.contains("hypervisor"))
    finding.fix.push_back({"qm set VMID --cpu host",
                           text("on Proxmox; with libvirt, set <cpu mode='host-passthrough'/>; the "
                                "virtual machine then gets the host CPU's instructions")});
  else
    finding.fix.push_back({"", text("this processor lacks these instructions: use a build without "
                                    "them (conda-forge, or compiled here), or a newer machine")});
}

/// Reports an Ollama up to 0.5.7 on a CPU without AVX. Its GPU runners were compiled with AVX, so
/// it does not use the GPU.
void ollama_without_avx(Examination& look, const Flags& flags) {
  const OllamaFiles* ollama = look.see(look.facts.platform.ollama);
  if (ollama == nullptr || flags.contains("avx")) return;
  const auto runner =
      std::find_if(ollama->libraries.begin(), ollama->libraries.end(), [](const std::string& name) {
        return name.starts_with("runners/") && !name.starts_with("runners/cpu") &&
               name.find("_avx") != std::string::npos;
      });
  // There is no fault if separate libraries exist and none of them needs AVX. Ollama before 0.4 has
  // no separate libraries, because its runners are inside the program.
  if (runner == ollama->libraries.end() && !ollama->libraries.empty()) return;
  Finding& finding =
      look.found(text("the CPU has no AVX, which this release of Ollama needs to use the GPU"));
  finding.evidence = {
      text("/proc/cpuinfo: no {}", "avx"),
      runner == ollama->libraries.end() ? ollama->program : ollama->folder + "/" + *runner,
      "https://github.com/ollama/ollama/issues/2187"};
  advise(look, finding, flags);
  finding.fix.push_back({"curl -fsSL https://ollama.com/install.sh | sh",
                         text("a newer release, which does not need AVX for the GPU")});
}

void missing_instructions(Examination& look) {
  const Flags* flags = look.see(look.facts.platform.cpu.flags);
  if (flags == nullptr || is_aarch64(look.facts)) return;
  if (seen_gpus(look).empty() && cards_on_bus(look, kVendorAmd).empty()) return;
  ollama_without_avx(look, *flags);
  for (const CpuNeed& row : look.knowledge.compatibility().cpu_needs) {
    const auto package = look.facts.python.distribution(row.package);
    const Distribution* one = look.see(package);
    const std::string missing = lacking(*flags, row.needs);
    if (one == nullptr || missing.empty() || !in_range(one->version, row.versions) ||
        (!row.tag.empty() && !local_part(one->version).starts_with(row.tag)) ||
        conda_package(look, row.package) != nullptr)
      continue;
    Finding& finding =
        look.found(text("{} is compiled with {}, which this processor lacks: the import fails with "
                        "an illegal instruction",
                        named(*one), missing));
    finding.evidence = {text("/proc/cpuinfo: no {}", missing), one->path, row.source};
    advise(look, finding, *flags);
    return;
  }
}

constexpr auto kInstructionsRules = std::to_array<Rule>({
    {"CPU06", Layer::kHardware, Severity::kError, true,
     msgid("a processor without instructions that a program was compiled with"), "FW08 FW10 FW24",
     missing_instructions},
});

}  // namespace

std::span<const Rule> instruction_rules() {
  return kInstructionsRules;
}

}  // namespace berth::doctor
