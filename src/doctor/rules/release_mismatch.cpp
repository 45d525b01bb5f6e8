// Rules FW20, AMD03: packages that were installed for another Python, and an AMD driver that was
// not tested with the installed ROCm.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/knowledge/python_text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// The Python version in the name of a module: "3.10" for _C.cpython-310-x86_64-linux-gnu.so; ""
/// for other names.
std::string python_of_module(const std::string& name) {
  constexpr std::string_view kBegin = "_C.cpython-3";
  if (!name.starts_with(kBegin)) return "";
  const std::size_t end = name.find_first_not_of("0123456789", kBegin.size());
  return "3." + name.substr(kBegin.size(), end - kBegin.size());
}

/// Reports frameworks that the user installed with another Python's pip.
void other_pip(Examination& look) {
  const OtherPip* pip = look.see(look.facts.python.other_pip);
  const auto* here = look.see(look.facts.python.distributions);
  if (pip == nullptr || here == nullptr || pip->frameworks.empty()) return;
  const std::string folder = pip->frameworks.front();
  const std::string package = parse_info_name(folder.substr(folder.rfind('/') + 1)).first;
  Finding& finding = look.found(
      text("pip installs for another Python, {}: {} is installed there, but not in this Python",
           pip->interpreter, package));
  // If this Python has a framework too, the other installation may be intended.
  if (std::any_of(here->begin(), here->end(), [](const Distribution& one) {
        return one.name == "torch" || one.name == "tensorflow" || one.name == "jaxlib";
      }))
    finding.severity = Severity::kInfo;
  finding.evidence = {
      fmt::format("{}: #!{} (Python {})", pip->path, pip->interpreter, pip->version)};
  for (const std::string& one : pip->frameworks) finding.evidence.push_back(one);
  finding.evidence.push_back(
      text("the Python that runs: {}", look.facts.python.interpreter.value_or("python3")));
  finding.fix.push_back({install_command(look.facts.python, {package}),
                         text("installs for the Python that runs, whatever pip is in PATH")});
}

void other_python(Examination& look) {
  other_pip(look);
  const std::string* python = look.see(look.facts.python.version);
  const TorchBuild* torch = look.see(look.facts.python.torch);
  if (python == nullptr || torch == nullptr) return;
  const auto* modules = look.see(look.facts.python.torch_modules);
  std::vector<std::string> made_for;
  for (const std::string& name : modules == nullptr ? std::vector<std::string>() : *modules)
    if (const std::string one = python_of_module(name); !one.empty()) made_for.push_back(one);
  if (!made_for.empty() && std::find(made_for.begin(), made_for.end(), *python) == made_for.end()) {
    Finding& finding =
        look.found(text("this PyTorch {} is compiled for Python {}, but the Python here is {}",
                        torch->version, made_for.front(), *python));
    finding.evidence.push_back(torch->path);
    finding.fix.push_back({install_command(look.facts.python, {"--force-reinstall", "torch"}), ""});
  }
}

void rocm_driver_old(Examination& look) {
  const std::string* driver = look.see(look.facts.rocm.driver_release);
  const std::string* rocm = look.see(look.facts.rocm.version);
  if (driver == nullptr || rocm == nullptr || cards_on_bus(look, kVendorAmd).empty()) return;
  for (const RocmDriver& row : look.knowledge.compatibility().rocm_drivers) {
    if (row.driver != beginning(*driver) || in_range(*rocm, row.rocm)) continue;
    if (is_older(beginning(*rocm), beginning(*driver)))
      continue;  // newer drivers also work with older ROCm releases
    Finding& finding = look.found(
        text("AMD's driver is from ROCm {}, which was not tested with ROCm {}", *driver, *rocm));
    finding.evidence.push_back("/var/lib/dpkg/status: amdgpu-dkms");
    finding.evidence.push_back(text("ROCm releases tested with this driver: {}", row.rocm));
    finding.fix.push_back({"sudo amdgpu-install --usecase=dkms && sudo reboot",
                           text("from the repository of the installed ROCm release")});
  }
}

constexpr auto kReleaseMismatchRules = std::to_array<Rule>({
    {"FW20", Layer::kFramework, Severity::kError, true,
     msgid("a framework that was installed for another Python"), "", other_python},
    {"AMD03", Layer::kDriver, Severity::kWarning, false,
     msgid("an AMD driver that is older than ROCm expects"), "", rocm_driver_old},
});

}  // namespace

std::span<const Rule> fit_rules() {
  return kReleaseMismatchRules;
}

}  // namespace berth::doctor
