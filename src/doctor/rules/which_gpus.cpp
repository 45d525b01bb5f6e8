#include "doctor/rules/which_gpus.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/file.hpp"

namespace berth::doctor {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::vector<PciFunction> gpus_on_bus(Examination& look, std::uint32_t vendor) {
  std::vector<PciFunction> found;
  if (const auto* functions = look.see(look.facts.machine.pci))
    for (const PciFunction& one : *functions)
      if (one.vendor == vendor && one.is_gpu()) found.push_back(one);
  return found;
}

bool machine_has_nvidia(Examination& look) {
  const Facts& facts = look.facts;
  if (facts.files.kernel_module) return true;
  if (facts.driver.gpus && !facts.driver.gpus->empty()) return true;
  if (facts.machine.pci && !gpus_on_bus(look, kVendorNvidia).empty()) return true;
  if (facts.machine.is_jetson || facts.wsl.driver_library.value_or(false)) return true;
  // The PCI bus may be hidden, and a paravirtual GPU is not on the bus. A loaded module then shows
  // that there is a GPU.
  if (facts.machine.modules)
    return std::find(facts.machine.modules->begin(), facts.machine.modules->end(), "nvidia") !=
           facts.machine.modules->end();
  if (facts.machine.pci && facts.files.kernel_module.is_absent()) return false;
  static_cast<void>(look.see(facts.machine.modules));
  return false;
}

bool is_intel_card(const PciFunction& one) {
  // The first two digits of the ids of DG1, Alchemist and Flex, Ponte Vecchio, and Battlemage. All
  // other ids are of integrated GPUs.
  const std::uint32_t family = one.device >> 8;
  return one.vendor == kVendorIntel &&
         (family == 0x49 || family == 0x4f || family == 0x56 || family == 0x0b || family == 0xe2);
}

std::vector<PciFunction> cards_on_bus(Examination& look, std::uint32_t vendor) {
  auto found = gpus_on_bus(look, vendor);
  // Without ROCm's list, it is unknown which AMD GPUs are integrated.
  if (vendor == kVendorAmd && !found.empty() && look.facts.rocm.nodes.is_unreadable()) return {};
  std::erase_if(found, [&](const PciFunction& one) {
    if (vendor == kVendorIntel) return !is_intel_card(one);
    const auto* nodes = look.facts.rocm.nodes ? &*look.facts.rocm.nodes : nullptr;
    return nodes != nullptr && std::any_of(nodes->begin(), nodes->end(), [&](const KfdNode& node) {
             return node.integrated() && node.address == one.address;
           });
  });
  return found;
}

std::optional<std::size_t> nvidia_count(Examination& look) {
  if (look.facts.driver.gpus) return look.facts.driver.gpus->size();
  const auto gpus = look.facts.nodes.nvidia_gpus();
  if (const auto* nodes = look.see(gpus); nodes != nullptr && !nodes->empty()) return nodes->size();
  if (!look.facts.driver.gpus.is_absent()) static_cast<void>(look.see(look.facts.driver.gpus));
  return std::nullopt;
}

std::string gpu_variable_of_image(Examination& look) {
  for (const char* name : {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_REQUIRE_CUDA",
                           "NVIDIA_DRIVER_CAPABILITIES", "CUDA_VERSION", "NV_CUDA_LIB_VERSION"}) {
    std::string shown = shown_variable(look, name);
    if (!shown.empty()) return shown;
  }
  return "";
}

bool in_wsl(Examination& look) {
  if (const auto* release = look.see(look.facts.machine.kernel))
    if (contains(*release, "icrosoft")) return true;
  return look.facts.wsl.folder.has_value();
}

std::string container_kind(Examination& look) {
  const auto* kind = look.see(look.facts.container.kind);
  return kind == nullptr ? "" : *kind;
}

std::string variable_or_empty(Examination& look, const char* name) {
  const auto value = look.facts.process.variable(name);
  const std::string* seen = look.see(value);
  return seen == nullptr ? "" : *seen;
}

std::string shown_variable(Examination& look, const char* name) {
  const auto value = look.facts.process.variable(name);
  const std::string* seen = look.see(value);
  return seen == nullptr ? "" : std::string(name) + "=" + *seen;
}

bool toml_sets(std::string_view toml, std::string_view key, std::string_view value) {
  for (std::string_view line : split(toml, '\n')) {
    line = trim(line);
    const auto equals = line.find('=');
    if (equals != std::string_view::npos && trim(line.substr(0, equals)) == key &&
        trim(line.substr(equals + 1)).starts_with(value))
      return true;
  }
  return false;
}

bool spans_machines(Examination& look) {
  for (const char* name : {"NNODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES", "GROUP_WORLD_SIZE"})
    if (to_number(variable_or_empty(look, name)).value_or(1) > 1) return true;
  return false;
}

bool is_on(std::string_view value) {
  std::string small(trim(value));
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr auto kOn = std::to_array<std::string_view>({"1", "true", "yes", "on", "y", "t"});
  return std::find(kOn.begin(), kOn.end(), small) != kOn.end();
}

}  // namespace berth::doctor
