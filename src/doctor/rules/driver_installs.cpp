// Rules DRV17, DRV18, DRV33: the installed driver packages, and incomplete updates.
#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"

namespace berth::doctor {
namespace {

void two_installs(Examination& look) {
  if (!may_concern_nvidia(look.facts) || look.facts.machine.in_container) return;
  const auto* libraries = look.see(look.facts.nvidia.libraries);
  if (libraries == nullptr) return;
  std::set<std::string> versions;
  for (const DriverLibrary& one : *libraries) versions.insert(one.version);
  if (versions.size() < 2) return;
  Finding& finding = look.found(text("two versions of NVIDIA's driver libraries are installed: {}",
                                     fmt::join(versions, ", ")));
  for (const DriverLibrary& one : *libraries) finding.evidence.push_back(one.path);
  const auto installers = look.facts.nvidia.installers.value_or({});
  const bool by_hand =
      std::find(installers.begin(), installers.end(), "nvidia-installer") != installers.end();
  if (by_hand) {
    finding.evidence.push_back(text("/usr/bin/nvidia-uninstall: installed by NVIDIA's .run file"));
    finding.fix.push_back(
        {"sudo nvidia-uninstall",
         text("then install the package again, so that all files come from one source")});
  }
  finding.fix.push_back(on_system(
      look, "owner",
      text("files that belong to no package are leftovers: remove them, then run sudo ldconfig"),
      pasted(libraries->front().path) + " " + pasted(libraries->back().path)));
}

/// The letters in a kernel's name, which identify its series. "6.10.6-200.fc40.x86_64" and
/// "6.11.3-200.fc41.x86_64" are of one series; "6.6.47-1-lts" is of another.
std::string line_of(std::string_view kernel) {
  std::string letters;
  for (const char c : kernel)
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) letters += c;
  return letters;
}

/// Compares the numbers in two kernels' names from left to right: "6.8.0-45" < "6.8.0-107".
bool is_older_kernel(std::string_view one, std::string_view other) {
  const auto numbers = [](std::string_view name) {
    std::vector<std::int64_t> found;
    for (std::size_t at = 0; at < name.size();) {
      const std::size_t end = std::min(name.find_first_not_of("0123456789", at), name.size());
      if (end > at) found.push_back(to_number(name.substr(at, end - at)).value_or(0));
      at = end + 1;
    }
    return found;
  };
  return numbers(one) < numbers(other);
}

bool has_module(const std::vector<ModuleFile>& files, std::string_view kernel) {
  return std::any_of(files.begin(), files.end(),
                     [&](const ModuleFile& file) { return file.kernel == kernel; });
}

/// Reports that an update removed the module files of the running kernel. Modules that are not
/// loaded yet cannot be loaded until a reboot.
bool kernel_removed(Examination& look, const std::string& running,
                    const std::vector<std::string>& kernels) {
  const bool any = std::any_of(kernels.begin(), kernels.end(), [](const std::string& name) {
    return !name.empty() && name.front() >= '0' && name.front() <= '9';
  });
  if (!any || std::find(kernels.begin(), kernels.end(), running) != kernels.end()) return false;
  Finding& finding =
      look.found(text("an update removed the modules of the running kernel {}: no module can be "
                      "loaded until a reboot",
                      running));
  finding.evidence.push_back(fmt::format("/lib/modules: {}", fmt::join(kernels, " ")));
  if (is_not_loaded(look, "nvidia_uvm"))
    finding.evidence.push_back(text("/proc/modules lists nvidia, but not nvidia_uvm"));
  finding.fix.push_back({"sudo reboot", ""});
  return true;
}

/// Reports that the next boot will start a newer kernel, for which there is no NVIDIA module.
void next_kernel_without_module(Examination& look, const std::string& running,
                                const std::vector<std::string>& kernels) {
  const auto* files = look.see(look.facts.nvidia.modules_on_disk);
  const bool* akmods = look.see(look.facts.nvidia.akmods);
  if (files == nullptr || akmods == nullptr || *akmods || !has_module(*files, running) ||
      !is_loaded(look, "nvidia_uvm"))
    return;
  const std::string* newest = nullptr;
  for (const std::string& kernel : kernels)
    if (line_of(kernel) == line_of(running) &&
        is_older_kernel(newest == nullptr ? running : *newest, kernel))
      newest = &kernel;
  if (newest == nullptr || has_module(*files, *newest)) return;
  Finding& finding = look.found(
      text("the newest kernel, {}, has no NVIDIA module: after the next reboot the GPU is unusable",
           *newest));
  finding.evidence.push_back(text("the running kernel {} has the module", running));
  finding.evidence.push_back(text("{} contains no nvidia.ko", "/lib/modules/" + *newest));
  finding.fix.push_back({fmt::format("sudo dkms autoinstall -k {}", pasted(*newest)),
                         text("run this before the reboot; it needs that kernel's headers: "
                              "linux-headers-… or kernel-devel-…")});
}

void reboot_pending(Examination& look) {
  if (!may_concern_nvidia(look.facts) || look.facts.machine.in_container ||
      look.facts.machine.is_wsl)
    return;
  const auto* packages = look.see(look.facts.nvidia.reboot_wanted_by);
  if (packages != nullptr && packages->find("nvidia") != std::string::npos) {
    Finding& finding = look.found(text("NVIDIA's driver was updated and waits for a reboot"));
    for (const std::string_view line : split(*packages, '\n'))
      if (line.find("nvidia") != std::string_view::npos)
        finding.evidence.push_back("/run/reboot-required.pkgs: " + printable(line));
    finding.fix.push_back(
        {"sudo reboot", text("when convenient: programs keep running until the reboot")});
    return;
  }
  const std::string* running = look.see(look.facts.machine.kernel);
  const auto* kernels = look.see(look.facts.nvidia.kernels_on_disk);
  if (running == nullptr || kernels == nullptr || !is_loaded(look, "nvidia")) return;
  if (!kernel_removed(look, *running, *kernels))
    next_kernel_without_module(look, *running, *kernels);
}

/// Reports that dpkg was interrupted. Every later apt command fails at the same package.
void unfinished(Examination& look) {
  if (look.facts.machine.in_container || (nvidia_gpus(look).empty() && !is_loaded(look, "nvidia")))
    return;
  const auto* packages = look.see(look.facts.nvidia.unfinished);
  if (packages == nullptr || packages->empty()) return;
  const auto is_drivers = [](const UnfinishedPackage& one) {
    return !one.name.starts_with("linux-headers-") && !one.name.starts_with("linux-image-");
  };
  const auto first = std::find_if(packages->begin(), packages->end(), is_drivers);
  // An unfinished kernel package only matters if DKMS builds NVIDIA's module for it.
  if (first == packages->end() && look.see(look.facts.nvidia.source) == nullptr) return;
  // If dpkg runs now, the installation is still in progress.
  for (const std::string& name : look.facts.machine.processes.value_or({}))
    if (name == "dpkg" || name == "apt-get" || name == "apt" || name.starts_with("unattended-upgr"))
      return;
  Finding& finding =
      look.found(text("the installation of {} was not finished: the driver is incomplete, and "
                      "later installations fail at this package too",
                      (first == packages->end() ? packages->front() : *first).name));
  if (is_not_loaded(look, "nvidia")) finding.severity = Severity::kError;
  for (const UnfinishedPackage& one : *packages)
    finding.evidence.push_back(
        fmt::format("/var/lib/dpkg/status: {}: {}", printable(one.name), printable(one.status)));
  finding.evidence.emplace_back("https://github.com/compiler-explorer/infra/issues/1722");
  finding.fix.push_back(
      {"sudo dpkg --configure -a && sudo apt-get -f install",
       text("continues the installation; if a module cannot be built, the output says why")});
}

constexpr auto kDriverInstallsRules = std::to_array<Rule>({
    {"DRV17", Layer::kDriver, Severity::kWarning, false, msgid("two installations of the driver"),
     "DRV05", two_installs},
    {"DRV18", Layer::kDriver, Severity::kWarning, true,
     msgid("an update of driver or kernel that waits for a reboot"), "DRV11", reboot_pending},
    {"DRV33", Layer::kDriver, Severity::kWarning, true,
     msgid("a driver installation that was not finished"), "", unfinished},
});

}  // namespace

std::span<const Rule> driver_install_rules() {
  return kDriverInstallsRules;
}

}  // namespace berth::doctor
