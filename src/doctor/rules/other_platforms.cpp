// Rules WSL, AMD and XPU03: WSL, ROCm, and permissions of Intel's nodes.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/install.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/reinstall.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

void wsl_driver_inside(Examination& look) {
  if (!in_wsl(look) || !look.missing(look.facts.container.kind)) return;
  const auto* cuda = look.see(look.facts.files.cuda);
  const auto* nvml = look.see(look.facts.files.nvml);
  const auto* there = look.see(look.facts.wsl.driver_library);
  if (cuda == nullptr || nvml == nullptr || there == nullptr) return;
  const auto is_linux_driver = [](const LibraryFile& one) {
    // WSL's own library is called libcuda.so.1.1 or similar. A name with a driver version belongs
    // to a Linux driver.
    return !contains(one.target, "/wsl/") && is_older("100", one.version());
  };
  for (const auto* list : {cuda, nvml}) {
    const auto found = std::find_if(list->begin(), list->end(), is_linux_driver);
    if (found == list->end()) continue;
    Finding& finding = look.found(
        text("the Linux driver {} is installed inside WSL, but WSL uses the driver of Windows",
             found->version()));
    finding.evidence.push_back(fmt::format("{} → {}", found->path, found->target));
    finding.fix.push_back(
        on_system_between(look, "driver_purge", "", "sudo ldconfig",
                          text("after that, /usr/lib/wsl/lib/nvidia-smi shows the GPU")));
    return;
  }
  // If NVML or CUDA started, programs find the library, even if Berth's own search did not find it.
  const auto& driver = look.facts.driver;
  if (!cuda->empty() || driver.nvml_init.value_or(1) == 0 || driver.cuda_init.value_or(1) == 0)
    return;
  if (look.see_whole(look.facts.files.cuda) == nullptr) return;
  if (*there) {
    const auto* searched = look.see(look.facts.wsl.folder_is_searched);
    if (searched == nullptr || *searched) return;
    Finding& finding = look.found(
        text("Windows' driver library is here, but the loader does not search its folder"));
    finding.evidence.push_back(
        fmt::format("/usr/lib/wsl/lib/libcuda.so.1; /etc/ld.so.conf.d: {}", tr("missing")));
    finding.fix.push_back(
        {"echo /usr/lib/wsl/lib | sudo tee /etc/ld.so.conf.d/ld.wsl.conf\n"
         "sudo ldconfig",
         ""});
  } else if (look.facts.nodes.dxg && look.facts.wsl.folder) {
    Finding& finding =
        look.found(text("WSL has the GPU, but Windows provides no CUDA library for it"));
    finding.evidence.push_back(
        fmt::format("/dev/dxg; /usr/lib/wsl/lib/libcuda.so.1: {}", tr("missing")));
    // WSL looks the same on a machine with only an Intel or AMD GPU. Without a sign of NVIDIA, this
    // is only information.
    finding.severity = variable_or_empty(look, "CUDA_VISIBLE_DEVICES").empty() && nvml->empty()
                           ? Severity::kInfo
                           : Severity::kFatal;
    finding.fix.push_back({"wsl.exe --update && wsl.exe --shutdown",
                           text("run this after you have updated NVIDIA's driver in Windows")});
  }
}

void wsl_no_dxg(Examination& look) {
  if (!in_wsl(look) || !look.missing(look.facts.container.kind)) return;
  if (!look.missing(look.facts.nodes.dxg)) return;
  const auto* there = look.see(look.facts.wsl.driver_library);
  const auto* release = look.see(look.facts.machine.kernel);
  if (release == nullptr || there == nullptr) return;
  // The kernel of WSL 1 is called "4.4.0-19041-Microsoft", that of WSL 2 "…-microsoft-standard…".
  const bool first = contains(*release, "-Microsoft");
  Finding& finding =
      look.found(first ? text("WSL 1 cannot access a GPU")
                       : text("WSL has no /dev/dxg, so programs cannot access the GPU"));
  const bool told = look.facts.wsl.told_no_gpu.value_or(false);
  if (!*there && !first && !told) finding.severity = Severity::kInfo;
  if (told) {
    finding.evidence.emplace_back("/etc/wsl.conf: [gpu] enabled=false");
    finding.fix.push_back(
        {"sudo sed -i '/^\\[gpu\\]/,/^\\[/s/^ *enabled *=.*/enabled=true/' "
         "/etc/wsl.conf && wsl.exe --shutdown",
         text("enables the GPU again: this distribution's /etc/wsl.conf has disabled it")});
    return;
  }
  finding.evidence.push_back(
      fmt::format("/proc/sys/kernel/osrelease: {}; /dev/dxg: {}", *release, tr("missing")));
  finding.fix.push_back(
      first ? Fix{"wsl.exe --set-version DISTRIBUTION 2", text("in Windows")}
            : Fix{"wsl.exe --update && wsl.exe --shutdown",
                  text("run this in Windows, after you have updated the GPU's driver there")});
}

/// Reports a container that lacks libnvdxgdmal.so.1. The Windows driver has this library since
/// version 555, and older container toolkits do not provide it.
void toolkit_without_library(Examination& look) {
  constexpr int kNotFound = 500;
  if (look.facts.driver.cuda_init.value_or(0) != kNotFound || !look.facts.nodes.dxg) return;
  Finding& finding =
      look.found(text("this container received only a part of the Windows driver: the container "
                      "toolkit is too old for driver 555"));
  finding.evidence = {"cuInit: 500 (named symbol not found)",
                      "https://github.com/NVIDIA/nvidia-container-toolkit/issues/520"};
  finding.fix.push_back(
      on_system(look, "container_toolkit_update",
                text("install NVIDIA Container Toolkit 1.14.4 or newer in the WSL distribution "
                     "that runs Docker; or use Docker Desktop 4.31 or newer")));
}

/// Reports that CUDA finds no GPU although all files of WSL and of the Windows driver exist. The
/// Windows build, its driver and WSL's kernel are then incompatible.
void windows_gives_none(Examination& look) {
  constexpr int kNoDevice = 100, kUnknown = 999, kNoSupport = 500;
  const auto& driver = look.facts.driver;
  const auto* cuda = look.see(look.facts.files.cuda);
  if (look.facts.container.kind) return toolkit_without_library(look);
  if (!look.missing(look.facts.container.kind) || !look.facts.nodes.dxg ||
      look.facts.nodes.dxg->denied() || !look.facts.wsl.driver_library.value_or(false) ||
      cuda == nullptr || cuda->empty() || !contains(cuda->front().target, "/wsl/") ||
      !driver.cuda_init || variable_or_empty(look, "CUDA_VISIBLE_DEVICES") == "-1")
    return;
  const int init = *driver.cuda_init;
  if (init != kNoDevice && init != kUnknown && init != kNoSupport) return;
  const int nvml = driver.nvml_init.value_or(0);
  // NVML lists the GPU, so WSL works. Something else hides the GPU from CUDA.
  if (init == kNoDevice && nvml == 0) return;
  Finding& finding =
      look.found(text("Windows' driver is here, but WSL gets no GPU: the Windows build, its driver "
                      "and WSL's kernel are not compatible"));
  finding.evidence = {fmt::format("cuInit: {}; nvmlInit: {}", init, nvml),
                      fmt::format("/dev/dxg; {}", cuda->front().path)};
  if (look.facts.machine.kernel)
    finding.evidence.push_back("/proc/sys/kernel/osrelease: " + *look.facts.machine.kernel);
  finding.fix.push_back(
      {"wsl.exe --update && wsl.exe --shutdown",
       text("run this in Windows, after you have updated the GPU's driver there")});
  finding.fix.push_back({"", text("Microsoft's list of issues names preview builds of Windows that "
                                  "lose the GPU: use a newer or an older build")});
}

void wsl_blocked(Examination& look) {
  if (!in_wsl(look)) return;
  const auto& driver = look.facts.driver;
  const bool said =
      driver.nvml_message && contains(*driver.nvml_message, "locked by the operating");
  const auto* code = look.see(driver.nvml_init);
  if (!said && (code == nullptr || *code != 17)) return windows_gives_none(look);
  Finding& finding = look.found(text("Windows blocks the access to the GPU"));
  finding.evidence.push_back(nvml_says(look));
  finding.fix.push_back(
      {"wsl.exe --update && wsl.exe --shutdown",
       text("run this in Windows, after you have updated the GPU's driver there")});
  finding.fix.push_back({"", text("the GPU has to be in WDDM mode, not TCC: nvidia-smi -dm 0 in "
                                  "Windows")});
}

/// Reports that this process has no permission to open a node that programs need for the GPU.
Finding& refused(Examination& look, const GpuNode& node) {
  Finding& finding = look.found(text("this user may not open {}", node.path));
  const auto& identity = look.facts.process.identity;
  finding.evidence.push_back(fmt::format("{}: mode {:04o}, uid {}, gid {}", node.path,
                                         node.node.mode, node.node.uid, node.node.gid));
  if (identity)
    finding.evidence.push_back(fmt::format("uid {}, gid {}, groups {}", identity->uid,
                                           identity->gid, fmt::join(identity->groups, ", ")));
  if (node.node.gid != 0) {
    finding.fix.push_back({"sudo usermod -aG render,video \"$USER\"",
                           text("takes effect at the next login: log out, or use newgrp render")});
    return finding;
  }
  // The node belongs to group root. Users cannot join this group, so the node needs another group.
  if (look.missing(look.facts.container.kind))
    finding.fix.push_back({fmt::format("sudo chgrp render {0} && sudo chmod 660 {0}", node.path),
                           text("until the next boot; to make it permanent, use a udev rule like "
                                "those of AMD's and distributions' packages: GROUP=\"render\"")});
  else
    finding.fix.push_back(
        {"getent group render",
         text("shows the group's number in this container; the administrator must give the device "
              "file this group, on Proxmox with dev0: {},gid=NUMBER",
              node.path)});
  return finding;
}

/// Reports a missing /dev/kfd: amdgpu then drives the card for graphics only.
void kfd_missing(Examination& look) {
  if (!look.missing(look.facts.container.kind)) return;  // CTR19 reports this in containers
  const auto& torch = look.facts.python.torch;
  if (!(torch && torch->hip) && look.see(look.facts.rocm.folder) == nullptr) return;
  const auto cards = cards_on_bus(look, kVendorAmd);
  const auto bound = std::find_if(cards.begin(), cards.end(), [](const PciFunction& one) {
    return one.driver.value_or("") == "amdgpu";
  });
  if (bound == cards.end()) return;
  Finding& finding = look.found(
      text("the kernel has no /dev/kfd, which ROCm needs for the AMD GPU at {}", bound->address));
  finding.evidence.push_back(fmt::format("/sys/bus/pci/devices/{}/driver → amdgpu; /dev/kfd: {}",
                                         bound->address, tr("missing")));
  finding.fix.push_back({"zgrep CONFIG_HSA_AMD /proc/config.gz /boot/config-$(uname -r)",
                         text("CONFIG_HSA_AMD must be y or m: without it, ROCm does not work")});
  finding.fix.push_back(
      {"sudo dmesg | grep -i kfd", text("shows whether the kernel skipped the card, for example "
                                        "because PCIe atomics are missing")});
}

/// Whether ROCm is installed: in the system, in PyTorch, or as a part of another program.
bool has_rocm(Examination& look) {
  const auto& torch = look.facts.python.torch;
  return look.see(look.facts.rocm.folder) != nullptr ||
         look.see(look.facts.rocm.library) != nullptr || (torch && torch->hip);
}

void kfd_permission(Examination& look) {
  if (look.facts.nodes.kfd.is_absent()) return kfd_missing(look);
  const auto* kfd = look.see(look.facts.nodes.kfd);
  if (kfd == nullptr || gpus_on_bus(look, kVendorAmd).empty()) return;
  // Without ROCm, an integrated GPU is usually not used for computing.
  if (cards_on_bus(look, kVendorAmd).empty() && !has_rocm(look)) return;
  if (kfd->node.open_error == EACCES) {
    refused(look, *kfd);
    return;
  }
  const auto* render = look.see(look.facts.nodes.render);
  if (render == nullptr) return;
  for (const GpuNode& one : *render)
    if (one.node.open_error == EACCES && (one.vendor == kVendorAmd || one.vendor == 0)) {
      refused(look, one);
      return;
    }
}

/// A similar GPU whose code this GPU can run if HSA_OVERRIDE_GFX_VERSION is set.
struct Relative {
  std::string version;  // value for HSA_OVERRIDE_GFX_VERSION; "" if there is no similar GPU
  std::string gfx;      // name of the similar GPU: "gfx1030"
  /// Both GPUs have the same instruction set, so this setup is common and reliable.
  bool is_alike = false;
};

/// The first similar GPU that is among the targets of a library.
Relative relative_of(const KfdNode& node, const std::vector<std::string>& targets) {
  std::vector<Relative> all;
  if (node.target / 100 == 1003) all = {{"10.3.0", "gfx1030", true}};
  if (node.target / 100 == 1001) all = {{"10.1.0", "gfx1010", true}, {"10.3.0", "gfx1030", false}};
  if (node.target / 10000 == 11) all = {{"11.0.0", "gfx1100", node.target / 100 == 1100}};
  for (Relative& one : all)
    if (std::find(targets.begin(), targets.end(), one.gfx) != targets.end()) return std::move(one);
  return {};
}

void add_override(Finding& finding, const Relative& relative) {
  if (relative.version.empty()) return;
  finding.fix.push_back(
      {"export HSA_OVERRIDE_GFX_VERSION=" + relative.version,
       relative.is_alike
           ? text("runs the code for {}, which has the same instruction set; AMD "
                  "does not support this",
                  relative.gfx)
           : text("runs the code for the most similar GPU: usually works, but is not supported")});
}

/// Suggests PyTorch's wheel for a newer ROCm, which may support this GPU. Also suggests AMD's
/// wheels, which exist for each kind of GPU.
void add_newer_rocm_wheel(Examination& look, Finding& finding) {
  const auto& torch = *look.facts.python.torch;
  const std::string newest = look.knowledge.compatibility().newest_rocm();
  if (is_older(torch.hip.value_or(""), newest))
    finding.fix.push_back(
        torch_install(look, {"--force-reinstall", "torch"}, "rocm" + newest,
                      text("a newer ROCm supports newer GPUs, and fewer old ones")));
  finding.fix.push_back(
      {"", text("AMD has a wheel for each target: https://github.com/ROCm/TheRock, RELEASES.md")});
}

/// Whether the target is a family of GPUs, such as LLVM's "gfx11-generic", and this GPU belongs to
/// the family.
bool serves_family(std::string_view target, const std::string& gfx) {
  constexpr auto kFamilies = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"gfx9-generic", " gfx900 gfx902 gfx904 gfx906 gfx909 gfx90c "},
       {"gfx9-4-generic", " gfx940 gfx941 gfx942 gfx950 "},
       {"gfx10-1-generic", " gfx1010 gfx1011 gfx1012 gfx1013 "},
       {"gfx10-3-generic", " gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036 "},
       {"gfx11-generic", " gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 "},
       {"gfx12-generic", " gfx1200 gfx1201 "}});
  return std::any_of(kFamilies.begin(), kFamilies.end(), [&](const auto& one) {
    return one.first == target && contains(one.second, " " + gfx + " ");
  });
}

/// Whether this PyTorch is from one of AMD's images, according to its version and path.
bool is_of_an_image(const TorchBuild& torch) {
  const std::string_view tag = local_part(torch.version);
  return (tag.starts_with("rocm") || tag.starts_with("git")) &&
         (torch.path.starts_with("/opt/") || torch.path.starts_with("/usr/"));
}

/// Reports a PyTorch in one of AMD's images that has no code for the GPU. In these images,
/// PYTORCH_ROCM_ARCH has the targets of PyTorch. Elsewhere, it has the targets for building
/// extensions.
void image_without_target(Examination& look, const std::vector<KfdNode>& nodes) {
  const std::string list = variable_or_empty(look, "PYTORCH_ROCM_ARCH");
  const TorchBuild& torch = *look.facts.python.torch;
  if (list.empty() || container_kind(look).empty() || !is_of_an_image(torch)) return;
  std::vector<std::string> targets;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find_first_of("; ,", at), list.size());
    // A target may have flags: "gfx942:sramecc+".
    if (const auto one = list.substr(at, end - at); !one.empty())
      targets.push_back(one.substr(0, one.find(':')));
    at = end + 1;
  }
  for (const KfdNode& node : nodes)
    for (const std::string& target : targets)
      if (target == node.gfx() || serves_family(target, node.gfx())) return;
  const KfdNode& node = nodes.front();
  Finding& finding =
      look.found(text("PyTorch {} may have no code for this GPU, {}: PYTORCH_ROCM_ARCH in the "
                      "image does not list this GPU",
                      torch.version, node.gfx()));
  finding.severity = Severity::kWarning;
  finding.evidence = {torch.path, shown_variable(look, "PYTORCH_ROCM_ARCH")};
  const Relative relative = relative_of(node, targets);
  if (relative.is_alike) add_override(finding, relative);
  add_newer_rocm_wheel(look, finding);
  if (!relative.is_alike) add_override(finding, relative);
}

/// Reports a PyTorch whose own kernels are not compiled for the GPU, although rocBLAS may support
/// it.
void torch_without_target(Examination& look, const std::vector<KfdNode>& nodes) {
  const TorchBuild* torch = look.see(look.facts.python.torch);
  if (torch == nullptr || !torch->hip || nodes.empty()) return;
  // Wheels in PyTorch's index have a local version such as "rocm6.4". The local version of other
  // builds is longer.
  const std::string_view tag = local_part(torch->version);
  if (!tag.starts_with("rocm") || tag.find_first_not_of("0123456789.", 4) != std::string_view::npos)
    return image_without_target(look, nodes);
  for (const RocmWheel& row : look.knowledge.compatibility().rocm_wheels) {
    if (!in_range(tag.substr(4), row.rocm)) continue;
    const auto is_served = [&](const KfdNode& node) {
      return std::find(row.targets.begin(), row.targets.end(), node.gfx()) != row.targets.end();
    };
    if (std::any_of(nodes.begin(), nodes.end(), is_served)) return;
    const KfdNode& node = nodes.front();
    Finding& finding =
        look.found(text("PyTorch {} has no code for this GPU, {}", torch->version, node.gfx()));
    finding.evidence = {torch->path, text("this wheel was compiled for {}",
                                          fmt::format("{}", fmt::join(row.targets, ", ")))};
    const Relative relative = relative_of(node, row.targets);
    if (relative.is_alike) add_override(finding, relative);
    add_newer_rocm_wheel(look, finding);
    if (!relative.is_alike) add_override(finding, relative);
    return;
  }
}

void gfx_unsupported(Examination& look) {
  const auto* nodes = look.see(look.facts.rocm.nodes);
  const auto* targets = look.see(look.facts.rocm.rocblas_targets);
  if (nodes == nullptr) return;
  if (!look.missing(look.facts.process.variable("HSA_OVERRIDE_GFX_VERSION"))) return;
  if (targets == nullptr || targets->empty()) return torch_without_target(look, *nodes);
  const auto is_served = [&](const KfdNode& node) {
    return std::find(targets->begin(), targets->end(), node.gfx()) != targets->end();
  };
  // If rocBLAS supports one of the GPUs, the others are probably integrated. Then only check
  // PyTorch's own kernels.
  if (std::any_of(nodes->begin(), nodes->end(), is_served))
    return torch_without_target(look, *nodes);
  for (const KfdNode& node : *nodes) {
    const auto& torch = look.facts.python.torch;
    const bool is_torch =
        torch && look.facts.rocm.rocblas_folder.find("-packages/") != std::string::npos;
    Finding& finding = look.found(
        is_torch ? text("PyTorch {} has no code for this GPU, {}", torch->version, node.gfx())
                 : text("this ROCm has no code for this GPU, {}", node.gfx()));
    finding.evidence.push_back(fmt::format(
        "/sys/class/kfd/kfd/topology/nodes/{}: gfx_target_version {}", node.number, node.target));
    finding.evidence.push_back(
        fmt::format("{}: {}", look.facts.rocm.rocblas_folder, fmt::join(*targets, " ")));
    const Relative relative = relative_of(node, *targets);
    if (relative.is_alike) add_override(finding, relative);
    if (is_torch) add_newer_rocm_wheel(look, finding);
    if (!relative.is_alike) add_override(finding, relative);
    if (!is_torch)
      finding.fix.push_back({"", text("use a newer ROCm, or build the libraries for this target")});
    return;
  }
}

void iommu_passthrough(Examination& look) {
  const auto cards = cards_on_bus(look, kVendorAmd);
  if (cards.size() < 2) return;
  const auto* line = look.see(look.facts.platform.command_line);
  if (line == nullptr || contains(*line, "iommu=pt") || contains(*line, "iommu=off") ||
      contains(*line, "iommu.passthrough=1"))
    return;
  const auto* groups = look.see(look.facts.rocm.iommu_types);
  if (groups != nullptr && std::find(groups->begin(), groups->end(), "identity") != groups->end())
    return;
  Finding& finding =
      look.found(text("there are {} AMD GPUs, but no iommu=pt on the kernel's command line: "
                      "transfers between the GPUs may hang",
                      cards.size()));
  finding.evidence.push_back(fmt::format("/proc/cmdline: {}", *line));
  if (groups != nullptr)
    finding.evidence.push_back(fmt::format("iommu_group/type: {}", fmt::join(*groups, ", ")));
  finding.fix.push_back(on_system(look, "kernel_argument",
                                  text("devices then use physical addresses; device passthrough to "
                                       "virtual machines keeps working"),
                                  "iommu=pt"));
}

void igpu_mixed(Examination& look) {
  const auto* nodes = look.see(look.facts.rocm.nodes);
  if (nodes == nullptr) return;
  // Without ROCm, no program uses the integrated GPU.
  const auto& torch = look.facts.python.torch;
  const bool by_torch = torch && torch->hip;
  if (look.missing(look.facts.rocm.folder) && look.missing(look.facts.rocm.library) && !by_torch)
    return;
  const auto own = std::count_if(nodes->begin(), nodes->end(),
                                 [](const KfdNode& node) { return node.integrated(); });
  if (own == 0 || own == static_cast<std::ptrdiff_t>(nodes->size())) return;
  for (const char* name : {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"})
    if (!look.missing(look.facts.process.variable(name))) return;
  Finding& finding =
      look.found(text("the integrated GPU is visible next to the card, and programs may use it"));
  // PyTorch uses the first GPU, which is not always the integrated one.
  const bool others = look.see(look.facts.rocm.library) != nullptr ||
                      look.see(look.facts.platform.ollama) != nullptr;
  if (by_torch && !others && !nodes->front().integrated()) finding.severity = Severity::kInfo;
  for (const KfdNode& node : *nodes)
    finding.evidence.push_back(
        fmt::format("/sys/class/kfd/kfd/topology/nodes/{}: {}", node.number, node.gfx()));
  std::vector<std::size_t> cards;
  for (std::size_t i = 0; i < nodes->size(); ++i)
    if (!(*nodes)[i].integrated()) cards.push_back(i);
  finding.fix.push_back({fmt::format("export ROCR_VISIBLE_DEVICES={}", fmt::join(cards, ",")), ""});
}

void xpu_permission(Examination& look) {
  const auto& runtime = look.facts.files.intel_driver;
  const bool wanted = !cards_on_bus(look, kVendorIntel).empty() || (runtime && !runtime->empty());
  if (!wanted || gpus_on_bus(look, kVendorIntel).empty()) return;
  const auto* render = look.see(look.facts.nodes.render);
  if (render == nullptr) return;
  for (const GpuNode& one : *render)
    if (one.node.open_error == EACCES && (one.vendor == kVendorIntel || one.vendor == 0)) {
      refused(look, one).evidence.push_back(text(
          "only users who log in on the machine itself, not over SSH, get access automatically"));
      return;
    }
}

constexpr auto kDriver = Layer::kDriver, kLibraries = Layer::kLibraries;
constexpr auto kOtherPlatformsRules = std::to_array<Rule>({
    {"WSL01", kLibraries, Severity::kFatal, true, msgid("a Linux driver inside WSL"),
     "WSL03 LIB* DRV* FW*", wsl_driver_inside},
    {"WSL02", kDriver, Severity::kFatal, true, msgid("WSL without access to the GPU"),
     "WSL01 LIB* FW*", wsl_no_dxg},
    {"WSL03", kDriver, Severity::kFatal, true, msgid("a GPU that Windows blocks"), "LIB* FW*",
     wsl_blocked},
    {"AMD01", kDriver, Severity::kFatal, true,
     msgid("ROCm device nodes that are missing, or that this user may not open"), "FW*",
     kfd_permission},
    {"AMD02", kLibraries, Severity::kFatal, true, msgid("a ROCm without code for this GPU"), "FW*",
     gfx_unsupported},
    {"AMD04", kDriver, Severity::kWarning, true, msgid("several AMD GPUs behind an IOMMU"), "",
     iommu_passthrough},
    {"AMD05", kDriver, Severity::kWarning, true, msgid("an integrated GPU next to a graphics card"),
     "", igpu_mixed},
    {"XPU03", kDriver, Severity::kFatal, true,
     msgid("Intel device nodes that this user may not open"), "XPU02 FW*", xpu_permission},
});

}  // namespace

std::span<const Rule> other_platform_rules() {
  return kOtherPlatformsRules;
}

}  // namespace berth::doctor
