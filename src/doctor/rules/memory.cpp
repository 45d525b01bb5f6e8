// Rules FW23, FW31: packages that allocate memory in a way that vGPUs or Jetsons do not support,
// and libraries for servers on a Jetson.
#include "doctor/rules/memory.hpp"

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// Whether this is the name of a vGPU: its end is a size in GiB and the letter of a profile type,
/// as in "NVIDIA A40-48C" and "GRID V100D-32C".
bool is_name_of_vgpu(std::string_view name) {
  if (name.starts_with("GRID ")) return true;
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || name.size() < dash + 3) return false;
  const std::string_view profile = name.substr(dash + 1);
  return std::string_view("QCAB").find(profile.back()) != std::string_view::npos &&
         profile.substr(0, profile.size() - 1).find_first_not_of("0123456789") ==
             std::string_view::npos;
}

const char* word_for(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kVgpu:
      return "vgpu";
    case MemoryKind::kJetson:
      return "jetson";
    case MemoryKind::kWslWorkstation:
      return "wsl";
    case MemoryKind::kOrdinary:
      break;
  }
  return "";
}

void unserved_memory(Examination& look) {
  const auto* all = look.see(look.facts.python.distributions);
  const ManagedMemory memory = managed_memory(look);
  if (all == nullptr || memory.kind == MemoryKind::kOrdinary) return;
  for (const MemoryUser& row : look.knowledge.compatibility().memory_users) {
    if (std::find(row.where.begin(), row.where.end(), word_for(memory.kind)) == row.where.end())
      continue;
    const auto one = std::find_if(all->begin(), all->end(), [&](const Distribution& package) {
      return package.name == row.package && in_range(package.version, row.versions);
    });
    if (one == all->end()) continue;
    Finding& finding = look.found(
        text("{} allocates memory in a way that {} may not support: “operation not supported”",
             named(*one), memory.what));
    finding.evidence = {one->path, memory.what, row.source};
    if (memory.kind == MemoryKind::kVgpu) {
      // Only a warning: unified memory works if the vGPU has a whole GPU and the host enables it.
      // The virtual machine cannot see whether the host does.
      finding.severity = Severity::kWarning;
      finding.fix.push_back(
          {"", text("on the host: enable unified memory for this vGPU (enable_uvm=1), which needs "
                    "a profile of a whole GPU; then restart the guest")});
    }
    if (!row.use.empty())
      finding.fix.push_back({install_command(look.facts.python, {row.use}),
                             text("installs a release that allocates memory in the usual way")});
    if (!row.set.empty()) finding.fix.push_back({row.set, ""});
    return;
  }
}

/// Reports CUDA libraries for Arm servers on a Jetson. Up to JetPack 6, its driver does not support
/// them.
void servers_libraries(Examination& look) {
  if (!look.facts.machine.is_jetson) return;
  const int* release = look.see(look.facts.machine.l4t);
  // Libraries for servers work since JetPack 7 (R38), which runs on Thor.
  if (release == nullptr || *release < 34 || *release >= 38) return;
  const auto* all = look.see(look.facts.python.distributions);
  std::vector<std::string> found;
  for (const Distribution& one : all == nullptr ? std::vector<Distribution>() : *all)
    // "torch 2.7.0+cu126" is PyTorch's own wheel, which is for servers. Wheels for JetPack have
    // another local version, or none.
    if (one.name.starts_with("nvidia-cublas-cu") || one.name.starts_with("nvidia-cudnn-cu") ||
        (one.name == "torch" && local_part(one.version).starts_with("cu")))
      found.push_back(one.path);
  const std::string* source = look.see(look.facts.machine.sbsa_source);
  if (source != nullptr) found.push_back(*source);
  if (found.empty()) return;
  Finding& finding = look.found(text(
      "CUDA's server libraries (sbsa) are on this Jetson, whose driver does not support them"));
  finding.severity = Severity::kWarning;
  finding.evidence = found;
  finding.evidence.emplace_back("https://github.com/ollama/ollama/issues/6999");
  if (source != nullptr)
    finding.fix.push_back(
        {fmt::format("sudo rm {} && sudo apt update", pasted(*source)),
         text("then install JetPack's libraries: sudo apt install nvidia-jetpack")});
  if (found.size() > (source != nullptr ? 1 : 0))
    finding.fix.push_back(
        {install_command(look.facts.python, {"--force-reinstall", "torch"},
                         *release >= 36 ? "--index-url https://pypi.jetson-ai-lab.io/jp6/cu126"
                                        : "--index-url https://pypi.jetson-ai-lab.io/jp5/cu114"),
         text("installs wheels for JetPack, which use JetPack's libraries")});
}

constexpr auto kMemoryRules = std::to_array<Rule>({
    {"FW23", Layer::kFramework, Severity::kError, true,
     msgid("a package that allocates memory in a way this GPU does not support"), "",
     unserved_memory},
    {"FW31", Layer::kFramework, Severity::kWarning, true, msgid("server libraries on a Jetson"), "",
     servers_libraries},
});

}  // namespace

ManagedMemory managed_memory(Examination& look) {
  if (look.facts.machine.is_jetson) return {MemoryKind::kJetson, text("a Jetson")};
  for (const GpuAnswer& one : look.facts.driver.gpus.value_or({})) {
    const std::string name = one.name.value_or("");
    if (one.vgpu_licence.has_value() || is_name_of_vgpu(name)) return {MemoryKind::kVgpu, name};
    const bool workstation = contains(name, "RTX A") || contains(name, "RTX PRO") ||
                             contains(name, "Ada Generation") || contains(name, "Quadro");
    if (look.facts.machine.is_wsl && workstation)
      return {MemoryKind::kWslWorkstation, text("{} under WSL", name)};
  }
  return {};
}

std::span<const Rule> memory_rules() {
  return kMemoryRules;
}

}  // namespace berth::doctor
