// Rules DRV01 to DRV05, DRV09, DRV10: whether NVIDIA's kernel module exists, matches the kernel and
// the GPUs, and could initialize the GPUs.
#include <algorithm>
#include <array>
#include <set>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/kernel_lines.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"

namespace berth::doctor {
namespace {

std::string describe(const PciFunction& gpu) {
  return fmt::format("{} (10de:{:04x})", gpu.address, gpu.device);
}

/// The nvidia.ko for this kernel; nullptr if there is none.
const ModuleFile* file_for(const std::vector<ModuleFile>& files, const std::string& kernel) {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const ModuleFile& file) { return file.kernel == kernel; });
  return found == files.end() ? nullptr : &*found;
}

/// The NVIDIA GPUs if it is certain that NVIDIA's module is not loaded; otherwise empty.
std::vector<const PciFunction*> gpus_without_module(Examination& look) {
  auto gpus = nvidia_gpus(look);
  if (!gpus.empty() && !is_not_loaded(look, "nvidia")) gpus.clear();
  return gpus;
}

constexpr const char* kNotLoaded = msgid("/proc/modules does not list nvidia");

void module_missing(Examination& look) {
  const auto gpus = gpus_without_module(look);
  if (gpus.empty()) return;
  const auto* kernel = look.see(look.facts.machine.kernel);
  const auto& files = look.facts.nvidia.modules_on_disk;
  const auto* known = look.see(files);
  const bool installed = known != nullptr && (!known->empty() || look.facts.nvidia.source);
  const bool elsewhere = installed && kernel != nullptr && !look.facts.machine.in_container &&
                         file_for(*known, *kernel) == nullptr;
  if (elsewhere) return;  // DRV02 reports this
  Finding& finding =
      look.found(text("NVIDIA's kernel module is not loaded, so the GPU at {} has no driver",
                      gpus.front()->address));
  finding.evidence.emplace_back(tr(kNotLoaded));
  for (const auto* gpu : gpus) finding.evidence.push_back(describe(*gpu));
  const ModuleFile* file = known && kernel ? file_for(*known, *kernel) : nullptr;
  if (const Ban ban = ban_of(look, "nvidia"); !ban.evidence.empty()) {
    finding.evidence.push_back(ban.evidence);
    if (file != nullptr) finding.evidence.push_back(text("{} exists", file->path));
    finding.fix.push_back(without_ban(look, ban, "nvidia"));
    return;
  }
  if (file != nullptr) {
    finding.evidence.push_back(text("{} exists", file->path));
    finding.fix.push_back(
        {"sudo modprobe nvidia",
         text("if the module does not load, read the reason with: sudo dmesg | tail")});
    return;
  }
  if (look.facts.machine.in_container) {
    finding.fix.push_back({"sudo modprobe nvidia", text("on the host, not in the container")});
    return;
  }
  finding.fix.push_back(on_system(look, "driver", ""));
}

/// Reports a module that the kernel rejected because it was built for another kernel.
void module_refused(Examination& look, const std::string& kernel, const ModuleFile& file) {
  std::string line = newest_line(look, {"nvidia", "version magic"});
  if (line.empty()) line = newest_line(look, {"nvidia", "disagrees about version of symbol"});
  if (line.empty()) line = newest_line(look, {"nvidia", "Unknown symbol"});
  if (line.empty()) line = newest_line(look, {"nvidia", "section size must match"});
  if (line.empty()) line = newest_line(look, {"nvidia", "exports duplicate symbol"});
  if (line.empty()) return;
  Finding& finding = look.found(
      text("NVIDIA's module does not match kernel {}, which refuses to load it", kernel));
  finding.evidence = {quoted_line(line), text("{} exists", file.path)};
  finding.fix.push_back(on_system(look, "module", "", pasted(kernel), "--force "));
}

void module_not_for_kernel(Examination& look) {
  if (gpus_without_module(look).empty()) return;
  const auto* kernel = look.see(look.facts.machine.kernel);
  const auto* files = look.see(look.facts.nvidia.modules_on_disk);
  if (kernel == nullptr || files == nullptr) return;
  if (const ModuleFile* file = file_for(*files, *kernel))
    return module_refused(look, *kernel, *file);
  const std::string* source = look.see(look.facts.nvidia.source);
  if (files->empty() && (source == nullptr || look.facts.machine.in_container)) return;
  Finding& finding = look.found(
      files->empty()
          ? text("NVIDIA's driver is installed, but its module was not built for kernel {}",
                 *kernel)
          : text("NVIDIA's module was built for kernel {}, but kernel {} is running",
                 files->back().kernel, *kernel));
  if (files->empty()) finding.evidence.push_back(text("{} exists", *source));
  finding.evidence.push_back(text("no nvidia.ko under /lib/modules/{}", *kernel));
  for (const ModuleFile& file : *files) finding.evidence.push_back(text("{} exists", file.path));
  // Proxmox identifies itself as Debian, but its packages of kernel headers have other names.
  if (kernel->ends_with("-pve"))
    finding.fix.push_back(
        {fmt::format("sudo apt install {}-headers-{}\nsudo dkms autoinstall -k {} "
                     "&& sudo modprobe nvidia",
                     is_older(*kernel, "6.5") ? "pve" : "proxmox", pasted(*kernel),
                     pasted(*kernel)),
         text("builds the module for this kernel, if the driver was installed with DKMS")});
  else
    finding.fix.push_back(on_system(look, "module", "", pasted(*kernel)));
  if (!files->empty())
    finding.fix.push_back(
        {"sudo reboot", text("and choose kernel {} in the boot menu", files->back().kernel)});
  add_build_failure(look, finding);
}

/// Reports that Secure Boot rejected the amdgpu module from AMD's DKMS package.
void secure_boot_amd(Examination& look) {
  const auto* functions = look.see(look.facts.machine.pci);
  if (functions == nullptr || !is_not_loaded(look, "amdgpu")) return;
  const std::string line = newest_line(look, {"Loading of", "rejected"});
  const bool* on = look.see(look.facts.machine.secure_boot);
  if (line.empty() || on == nullptr || !*on) return;
  for (const PciFunction& one : *functions) {
    if (one.vendor != 0x1002 || !one.is_gpu() || !one.driver.is_absent()) continue;
    Finding& finding = look.found(text("Secure Boot is on and rejects AMD's module"));
    finding.evidence = {"/sys/firmware/efi/efivars/SecureBoot-…: 1", quoted_line(line)};
    finding.fix.push_back(on_system(look, "module_key", ""));
    finding.fix.push_back({"", text("turn Secure Boot off in the firmware setup")});
    return;
  }
}

void secure_boot(Examination& look) {
  if (gpus_without_module(look).empty()) return secure_boot_amd(look);
  const bool* on = look.see(look.facts.machine.secure_boot);
  if (on == nullptr || !*on) return;
  const auto* kernel = look.see(look.facts.machine.kernel);
  const auto& files = look.facts.nvidia.modules_on_disk;
  const ModuleFile* file = files && kernel ? file_for(*files, *kernel) : nullptr;
  // If modules exist only for other kernels, Secure Boot is not the cause.
  if (files && !files->empty() && file == nullptr) return;
  std::string line;
  if (const auto* log = look.see(look.facts.machine.kernel_log)) {
    line = newest_line(*log, {"Loading of", "rejected"});
    if (line.empty()) line = newest_line(*log, {"Lockdown:", "unsigned module"});
    if (line.empty()) line = newest_line(*log, {"nvidia", "module verification failed"});
    if (!newest_line(*log, {"Legacy drivers"}).empty()) return;
  }
  const bool installed = file != nullptr || !look.facts.nvidia.libraries.value_or({}).empty();
  if (line.empty() && !installed) return;
  Finding& finding = look.found(text("Secure Boot is on and rejects NVIDIA's module"));
  finding.evidence.push_back("/sys/firmware/efi/efivars/SecureBoot-…: 1");
  finding.evidence.emplace_back(tr(kNotLoaded));
  if (file != nullptr && file->is_signed)
    finding.evidence.push_back(*file->is_signed
                                   ? text("{} is signed, but its key is not trusted", file->path)
                                   : text("{} is not signed", file->path));
  else if (file != nullptr)
    finding.evidence.push_back(text("{} exists", file->path));
  if (!line.empty()) finding.evidence.push_back(quoted_line(line));
  finding.fix.push_back(on_system(look, "module_key", ""));
  finding.fix.push_back({"", text("turn Secure Boot off in the firmware setup")});
}

void nouveau(Examination& look) {
  std::vector<const PciFunction*> taken;
  const bool alone = is_loaded(look, "nouveau") && is_not_loaded(look, "nvidia");
  for (const auto* gpu : nvidia_gpus(look)) {
    const auto* driver = look.see(gpu->driver);
    if (driver == nullptr ? alone && gpu->driver.is_absent() : *driver == "nouveau")
      taken.push_back(gpu);
  }
  if (taken.empty()) return;
  Finding& finding = look.found(
      text("nouveau drives the GPU at {}; CUDA needs NVIDIA's own driver", taken.front()->address));
  for (const auto* gpu : taken)
    if (gpu->driver)
      finding.evidence.push_back(
          fmt::format("/sys/bus/pci/devices/{}/driver → nouveau", gpu->address));
  if (alone) finding.evidence.push_back(text("/proc/modules lists nouveau, but not nvidia"));
  const auto* lines = look.see(look.facts.nvidia.modprobe);
  std::string ban;  // the file that blacklists nouveau
  if (lines != nullptr)
    for (const ModprobeLine& line : *lines)
      if (line.text == "blacklist nouveau") ban = line.file;
  if (!ban.empty()) {
    finding.evidence.push_back(text(
        "{} blacklists nouveau, but the initial RAM disk does not contain this setting yet", ban));
    finding.fix.push_back(on_system(look, "initramfs", ""));
    return;
  }
  if (lines != nullptr)
    finding.evidence.push_back(text("no “blacklist nouveau” in /etc/modprobe.d"));
  finding.fix.push_back(
      on_system_between(look, "initramfs",
                        "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee "
                        "/etc/modprobe.d/blacklist-nouveau.conf",
                        "", text("run this after installing NVIDIA's driver")));
}

/// Whether the matching module was already installed at the last boot, although the kernel loaded
/// another one. If so, another reboot does not help.
bool was_there_at_start(Examination& look, Finding& finding) {
  const std::string* kernel = look.see(look.facts.machine.kernel);
  const auto* files = look.see(look.facts.nvidia.modules_on_disk);
  const ModuleFile* file =
      files != nullptr && kernel != nullptr ? file_for(*files, *kernel) : nullptr;
  const std::int64_t* started = look.see(look.facts.machine.started);
  // The clock may have been wrong during the boot, so allow a difference of one day.
  constexpr std::int64_t kDay = 86'400;
  if (file == nullptr || started == nullptr || !file->changed || *file->changed + kDay > *started)
    return false;
  finding.evidence.push_back(
      text("{} was already installed at the last boot: another reboot does not help", file->path));
  finding.evidence.emplace_back("https://github.com/openSUSE/nvidia-driver-G06/issues/25");
  finding.fix.push_back({"modinfo -F version nvidia",
                         text("if this is the library's version, the initial RAM disk has an older "
                              "module: run the next command. Otherwise reinstall the module and "
                              "the library in the same version from one source")});
  finding.fix.push_back(on_system(look, "initramfs", ""));
  return true;
}

void driver_mismatch(Examination& look) {
  if (!may_concern_nvidia(look.facts)) return;
  const auto& driver = look.facts.driver;
  const auto* module = look.see(look.facts.nvidia.module_version);
  const auto* library = look.see(look.facts.nvidia.library_version);
  constexpr int kMismatch = 18;
  const bool said = driver.nvml_init.value_or(0) == kMismatch;
  const bool works = driver.nvml_init && *driver.nvml_init == 0;
  const bool differ = module && library && !may_be_same(*module, *library);
  if (!said && (works || !differ)) return;
  Finding& finding = look.found(
      differ ? text("the driver's library has version {}, but the loaded module has version {}",
                    *library, *module)
             : text("the driver's library and the loaded kernel module have different versions"));
  if (module) finding.evidence.push_back("/sys/module/nvidia/version: " + printable(*module));
  if (library) finding.evidence.push_back("libnvidia-ml.so.1: " + printable(*library));
  if (said) finding.evidence.push_back(nvml_says(look));
  if (look.facts.container.kind.value_or("") == "lxc") {
    finding.fix.push_back(
        {fmt::format("sh NVIDIA-Linux-*-{}.run --no-kernel-module",
                     module != nullptr ? pasted(*module) : "VERSION"),
         text("run this in the LXC container: its libraries need the version of the host's kernel "
              "module, {}. Or install the container's driver version on the host",
              module != nullptr ? printable(*module) : "?")});
    return;
  }
  if (look.facts.machine.in_container) {
    finding.fix.push_back(
        {"", text("a container must use the host's driver library: start it with --gpus or "
                  "--device nvidia.com/gpu=all, and install no driver in it")});
    return;
  }
  if (was_there_at_start(look, finding)) return;
  finding.fix.push_back({"sudo reboot", text("loads the module that matches the library")});
  finding.fix.push_back(
      {"sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia",
       text("instead of a reboot, if no program uses the GPU")});
  finding.fix.push_back({"modinfo -F version nvidia",
                         text("if this version still differs from the library's, reinstall the "
                              "module and the library in the same version from one source")});
}

/// Whether NVML now lists the GPU of this log line, without an error.
bool works_by_now(const Facts& facts, const std::string& line) {
  for (const GpuAnswer& gpu : facts.driver.gpus.value_or({}))
    if (gpu.pci_address.size() >= 10 && gpu.error.is_absent() &&
        line.find(gpu.pci_address.substr(gpu.pci_address.size() - 10, 7)) != std::string::npos)
      return true;
  return false;
}

void gsp_boot_failed(Examination& look) {
  if (!may_concern_nvidia(look.facts)) return;
  const auto& parameters = look.facts.nvidia.parameters;
  const bool gsp_off = look.facts.nvidia.open_module.value_or(false) && parameters &&
                       parameters->contains("EnableGpuFirmware") &&
                       parameters->at("EnableGpuFirmware") == "0";
  std::string line;
  if (const auto* log = look.see(look.facts.machine.kernel_log)) {
    for (const std::string_view word : {"WPR2", "GSP firmware RM", "_kgspBootGspRm", "kgspInitRm",
                                        "RmInitAdapter failed", "rm_init_adapter failed"})
      if (line.empty()) line = newest_line(*log, {"NVRM", word});
  }
  if (!gsp_off && (line.empty() || works_by_now(look.facts, line))) return;
  Finding& finding =
      look.found(gsp_off ? text("the open kernel module needs the GPU's system processor (GSP), "
                                "but a module option disables the GSP")
                         : text("the driver could not start the GPU"));
  if (!line.empty()) finding.evidence.push_back(quoted_line(line));
  if (gsp_off) {
    finding.evidence.emplace_back("/proc/driver/nvidia/params: EnableGpuFirmware: 0");
    for (const ModprobeLine& option : look.facts.nvidia.modprobe.value_or({}))
      if (option.text.find("NVreg_EnableGpuFirmware") != std::string::npos)
        finding.evidence.push_back(option.file + ": " + printable(option.text));
    finding.fix.push_back(on_system_between(
        look, "initramfs", "sudo sed -i 's/NVreg_EnableGpuFirmware=0//' /etc/modprobe.d/*.conf", "",
        text("removes the option; the proprietary module, which needs no GSP, works too")));
    return;
  }
  finding.fix.push_back({"", text("switch the machine off, disconnect the power for ten seconds, "
                                  "start again: a reboot does not cut the GPU's power")});
  finding.fix.push_back({"sudo nvidia-bug-report.sh",
                         text("if the problem persists: update firmware and driver, then try the "
                              "card in another machine; if it fails there too, have it replaced")});
}

void gsp_file_missing(Examination& look) {
  if (!may_concern_nvidia(look.facts)) return;
  const auto* version = look.see(look.facts.nvidia.module_version);
  if (version == nullptr) return;
  std::string line = newest_line(look, {"firmware load for nvidia/", "failed"});
  if (line.find("gsp") == std::string::npos) line.clear();
  const auto& firmware = look.facts.nvidia.firmware;
  const auto& driver = look.facts.driver;
  // True if the firmware exists only for other driver versions. That is a fault only if the driver
  // also fails. If the driver works, the files are in another folder or the GPU needs none.
  const bool other = firmware && !firmware->empty() &&
                     std::find(firmware->begin(), firmware->end(), *version) == firmware->end();
  const bool silent = driver.nvml_init.value_or(0) != 0 ||
                      (driver.gpus && driver.gpus->empty() && driver.nvml_init);
  if (line.empty() && !(other && silent)) return;
  Finding& finding =
      look.found(text("the firmware files of driver {} are missing", printable(*version)));
  if (!line.empty()) finding.evidence.push_back(quoted_line(line));
  if (firmware)
    finding.evidence.push_back(fmt::format("/lib/firmware/nvidia: {}", fmt::join(*firmware, " ")));
  finding.fix.push_back(on_system(
      look, "firmware", text("or reinstall the driver, with all its packages from one source"),
      pasted(*version), std::to_string(branch_of(*version))));
}

constexpr auto kDriverModuleRules = std::to_array<Rule>({
    {"DRV01", Layer::kDriver, Severity::kFatal, true, msgid("NVIDIA's module is not loaded"),
     "HW02 DRV05 DRV11 DRV15 LIB01 FW*", module_missing},
    {"DRV02", Layer::kDriver, Severity::kFatal, true,
     msgid("NVIDIA's module is only installed for another kernel"),
     "HW02 HW03 DRV01 DRV04 DRV05 DRV11 DRV15 LIB01 FW*", module_not_for_kernel},
    {"DRV03", Layer::kDriver, Severity::kFatal, true, msgid("Secure Boot refuses the GPU's module"),
     "HW02 HW03 DRV01 DRV04 DRV05 DRV11 DRV15 LIB01 FW*", secure_boot},
    {"DRV04", Layer::kDriver, Severity::kFatal, true, msgid("nouveau drives the GPU"),
     "HW03 DRV01 DRV05 DRV11 LIB01 FW*", nouveau},
    {"DRV05", Layer::kDriver, Severity::kFatal, true,
     msgid("the driver's library and module have different versions"),
     "DRV10 DRV11 DRV13 DRV15 LIB01 FW* RT*", driver_mismatch},
    {"DRV09", Layer::kDriver, Severity::kFatal, true,
     msgid("a GPU that the driver could not start"), "HW08 DRV11 DRV13 DRV15 DRV28 FW* RT*",
     gsp_boot_failed},
    {"DRV10", Layer::kDriver, Severity::kFatal, false,
     msgid("missing firmware files of the driver"), "DRV09 FW*", gsp_file_missing},
});

}  // namespace

std::span<const Rule> driver_module_rules() {
  return kDriverModuleRules;
}

}  // namespace berth::doctor
