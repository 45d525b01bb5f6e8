// Rules LIB about libraries that the loader finds or does not find.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"

namespace berth::doctor {
namespace {

/// Whether NVIDIA's kernel module is loaded. Without it, libcuda.so.1 is not needed.
bool nvidia_module(Examination& look) {
  const auto* modules = look.see(look.facts.machine.modules);
  return modules != nullptr &&
         std::find(modules->begin(), modules->end(), "nvidia") != modules->end();
}

/// Reports an empty file instead of libcuda.so.1. An image that was created from a running
/// container has such files: they were the mount points of the driver's files.
void libcuda_empty(Examination& look, const FoundLibrary& cuda) {
  Finding& finding = look.found(
      text("{} is an empty file: programs find it first and cannot load the driver's library",
           cuda.name));
  finding.evidence = {text("{} → {}, found by {}", cuda.name, cuda.resolved, cuda.by),
                      "https://github.com/microsoft/WSL/issues/8274"};
  const bool inside = look.facts.machine.in_container;
  finding.fix.push_back(
      {std::string(inside ? "" : "sudo ") +
           "find /usr -xdev -type f -empty \\( -name 'libcuda*.so*' -o -name 'libnv*.so*' \\) "
           "-delete",
       inside
           ? text("put this into a RUN line of the Dockerfile: removes the empty driver files that "
                  "docker commit left, so that the container runtime mounts the host's files")
           : text("then reinstall the driver's package, which contains the real files")});
}

/// Reports a missing library in Distrobox or Toolbx. Both share the host's /dev, but provide the
/// host's driver libraries only if configured to. Installing a package with the libraries does not
/// help for long: they no longer match after the next update of the host.
bool missing_in_box(Examination& look) {
  const std::string* box = look.see(look.facts.container.box);
  if (box == nullptr) return false;
  const bool is_distrobox = *box == "distrobox";
  Finding& finding = look.found(text(
      "this {} container has the host's GPU, but not the libraries of the host's driver", *box));
  finding.evidence = {fmt::format("libcuda.so.1: {}", tr("missing"))};
  if (const std::string* host = look.see(look.facts.container.host_cuda))
    finding.evidence.push_back(text("{} exists", *host));
  finding.evidence.emplace_back("https://github.com/89luca89/distrobox/issues/633");
  if (is_distrobox)
    finding.fix.push_back({"distrobox create --nvidia --clone OLD --name NEW",
                           text("run this on the host after distrobox stop OLD: the new container "
                                "always uses the host's current libraries")});
  else
    finding.fix.push_back(
        {"toolbox create NEW",
         text("run this on the host, with Toolbx 0.1.0 or newer and NVIDIA's container toolkit: "
              "Toolbx then provides the libraries automatically")});
  return true;
}

/// Reports a missing library in Enroot. There, the nodes always exist, but a hook mounts the
/// driver's libraries only if NVIDIA_VISIBLE_DEVICES requests them.
bool missing_in_enroot(Examination& look) {
  const auto& process = look.facts.process;
  if (process.variable("container").value_or("") != "enroot") return false;
  const std::string visible = process.variable("NVIDIA_VISIBLE_DEVICES").value_or("");
  if (!visible.empty() && visible != "void") return false;
  const auto is_set = [&](const char* name) {
    return !process.variable(name).value_or("").empty();
  };
  // A job without a GPU needs no driver library.
  if (is_set("SLURM_JOB_ID") && !is_set("SLURM_JOB_GPUS") && !is_set("SLURM_STEP_GPUS") &&
      !is_set("CUDA_VISIBLE_DEVICES"))
    return true;
  Finding& finding =
      look.found(text("Enroot has mounted no driver library into this container, because "
                      "NVIDIA_VISIBLE_DEVICES requests no GPU"));
  finding.evidence = {"container=enroot; NVIDIA_VISIBLE_DEVICES=" + visible,
                      fmt::format("libcuda.so.1: {}", tr("missing")),
                      "https://github.com/NVIDIA/enroot/issues/205"};
  finding.fix.push_back(
      {"export NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility",
       text("run this before srun --container-image or enroot start; or add ENV lines to the "
            "image")});
  return true;
}

void libcuda_missing(Examination& look) {
  const bool from_windows = look.facts.wsl.driver_library.value_or(false);
  if (!from_windows && !nvidia_module(look)) return;
  const FoundLibrary* cuda = look.see(look.facts.libraries.cuda);
  const bool is_empty = cuda != nullptr && cuda->is_empty;
  if (!is_empty && !look.missing(look.facts.libraries.cuda)) return;
  // If cuInit was called, this process has found libcuda. For programs from Nix, this is no proof,
  // because they search other folders.
  if (look.facts.driver.cuda_init && !look.facts.libraries.by_nix) return;
  // A container without GPU nodes needs no libcuda; rules CTR report missing nodes.
  const auto& nodes = look.facts.nodes.nvidia;
  if (look.facts.container.kind && (nodes.is_unreadable() || (nodes && nodes->empty()))) return;
  if (is_empty) return libcuda_empty(look, *cuda);
  if (missing_in_box(look) || missing_in_enroot(look)) return;
  Finding& finding =
      look.found(text("the driver is loaded, but its library libcuda.so.1 is not found"));
  finding.evidence.push_back(
      text("searched where the loader searches: LD_LIBRARY_PATH, /etc/ld.so.cache, the default "
           "folders"));
  if (const FoundLibrary* nvml = look.see(look.facts.libraries.nvml))
    finding.evidence.push_back(text("libnvidia-ml.so.1 exists: {}", nvml->resolved));
  if (look.facts.libraries.by_nix) {
    finding.fix.push_back({std::string("export LD_LIBRARY_PATH=") +
                               (from_windows ? "/usr/lib/wsl/lib" : "/run/opengl-driver/lib"),
                           text("Nix's programs do not search the system's folders")});
    return;
  }
  // Some clouds mount the driver into a folder that the image's own LD_LIBRARY_PATH does not
  // contain.
  const auto* libraries = look.see(look.facts.nvidia.libraries);
  for (const DriverLibrary& one : libraries == nullptr ? std::vector<DriverLibrary>() : *libraries)
    if (one.name == "libcuda.so") {
      finding.evidence.push_back(text("{} exists", one.path));
      finding.fix.push_back(
          {"export LD_LIBRARY_PATH=" + pasted(one.path.substr(0, one.path.rfind('/'))) +
               "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",
           text("adds the folder with the library, which the loader does not search")});
      break;
    }
  if (look.facts.container.kind.value_or("") == "flatpak") {
    std::string version = look.facts.nvidia.module_version.value_or("VERSION");
    std::replace(version.begin(), version.end(), '.', '-');
    finding.fix.push_back({"flatpak install flathub org.freedesktop.Platform.GL.nvidia-" + version,
                           text("run this on the host: a flatpak needs this extension, in the same "
                                "version as the driver")});
    return;
  }
  finding.fix.push_back({"sudo ldconfig && ldconfig -p | grep libcuda",
                         text("helps if the file exists and only the loader's cache is outdated")});
  if (look.facts.machine.in_container) {
    finding.fix.push_back(
        {"",
         text("the container toolkit provides the library: start the container with --gpus all")});
    return;
  }
  const std::string version = look.facts.nvidia.module_version.value_or("");
  finding.fix.push_back(on_system(look, "libcuda", text("install the same version as the driver"),
                                  version.empty() ? "NNN" : std::to_string(branch_of(version))));
}

void libcuda_stub(Examination& look) {
  const FoundLibrary* cuda = look.see(look.facts.libraries.cuda);
  if (cuda == nullptr || !cuda->is_stub()) return;
  Finding& finding =
      look.found(text("programs load a stub of libcuda.so.1, in which every call fails"));
  finding.evidence.push_back(text("{} → {}, found by {}", cuda->name, cuda->resolved, cuda->by));
  finding.fix.push_back(
      {"export LD_LIBRARY_PATH=$(echo \"$LD_LIBRARY_PATH\" | tr : '\\n' | grep -v stubs | paste "
       "-sd:)",
       text("stubs are only for linking; the driver contains the real library")});
}

constexpr auto kLibrariesRules = std::to_array<Rule>({
    {"LIB01", Layer::kLibraries, Severity::kFatal, true, msgid("libcuda.so.1 is not found"),
     "FW* RT*", libcuda_missing},
    {"LIB02", Layer::kLibraries, Severity::kFatal, true, msgid("a stub of libcuda.so.1 is loaded"),
     "ENV07 FW* RT*", libcuda_stub},
});

}  // namespace

std::span<const Rule> library_rules() {
  return kLibrariesRules;
}

}  // namespace berth::doctor
