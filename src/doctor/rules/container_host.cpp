// Rules CTR for a machine that provides GPUs to containers: whether its container engines are set
// up for them. Also checks the driver that an image requires.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/container_nodes.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/requirement.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// Whether this is a machine (not a container) whose NVIDIA driver is loaded. A missing driver is
/// reported by other rules.
bool is_machine_with_driver(Examination& look) {
  if (!look.missing(look.facts.container.kind)) return false;
  if (in_wsl(look)) return false;
  if (look.facts.files.kernel_module) return true;
  const auto* modules = look.see(look.facts.machine.modules);
  return modules != nullptr &&
         std::find(modules->begin(), modules->end(), "nvidia") != modules->end();
}

bool uses_systemd_cgroups(const ContainerEngines& engines) {
  if (engines.daemon_json && contains(*engines.daemon_json, "native.cgroupdriver=cgroupfs"))
    return false;
  const auto settings = engines.node_runtimes.value_or({});
  return engines.cgroup_v2.has_value() ||
         (engines.daemon_json && contains(*engines.daemon_json, "native.cgroupdriver=systemd")) ||
         std::any_of(settings.begin(), settings.end(), [](const RuntimeSettings& file) {
           return contains(file.text, "SystemdCgroup = true");
         });
}

void char_links(Examination& look) {
  if (!is_machine_with_driver(look)) return;
  const auto& engines = look.facts.container.engines;
  if (look.see(engines.docker) == nullptr && look.see(engines.kubelet) == nullptr) return;
  const auto* toolkit = look.see(engines.toolkit);
  const auto* links = look.see(look.facts.nodes.char_links);
  const auto* gpus = look.see(look.facts.nodes.nvidia);
  if (toolkit == nullptr || links == nullptr || gpus == nullptr || gpus->empty()) return;
  if (!links->empty() || !uses_systemd_cgroups(engines)) return;
  if (!look.missing(engines.char_links_rule)) return;
  if (engines.toolkit_config && contains(*engines.toolkit_config, "mode = \"cdi\"")) return;
  Finding& finding =
      look.found(text("containers will lose their GPUs at the next systemctl daemon-reload: the "
                      "links that systemd needs to find NVIDIA's device nodes are missing"));
  finding.evidence.push_back(
      fmt::format("/dev/char/195:*: {}; {}; {}", tr("missing"), gpus->front().path, *toolkit));
  finding.evidence.push_back(engines.cgroup_v2 ? "/sys/fs/cgroup/cgroup.controllers"
                                               : "native.cgroupdriver=systemd");
  finding.fix.push_back({"sudo nvidia-ctk system create-dev-char-symlinks --create-all",
                         text("the links last until the next boot; to make them permanent, run "
                              "this command from a udev rule")});
  finding.fix.push_back(
      {"sudo nvidia-ctk config --set nvidia-container-runtime.mode=cdi --in-place\n"
       "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
       text("or use CDI: the container engine then passes the device nodes itself")});
}

/// Reports a Docker without NVIDIA's container toolkit.
void docker_without_toolkit(Examination& look) {
  const auto& engines = look.facts.container.engines;
  const auto* docker = look.see(engines.docker);
  if (docker == nullptr || !look.missing(engines.toolkit)) return;
  const auto* specs = look.see(engines.cdi);
  if (specs == nullptr || !specs->empty() || engines.daemon_json.is_unreadable()) return;
  Finding& finding =
      look.found(text("Docker on this machine cannot give a GPU to a container: NVIDIA's container "
                      "toolkit is not installed"));
  // If Docker's settings name the toolkit, every container with a GPU fails. Otherwise, perhaps no
  // container needs a GPU.
  const bool named = engines.daemon_json && contains(*engines.daemon_json, "nvidia");
  if (!named) finding.severity = Severity::kWarning;
  finding.evidence.push_back(
      fmt::format("{}; /usr/bin/nvidia-container-runtime-hook: {}", *docker, tr("missing")));
  if (engines.daemon_json)
    finding.evidence.push_back(
        fmt::format("/etc/docker/daemon.json: nvidia: {}", named ? "runtimes" : tr("missing")));
  finding.fix.push_back(on_system_between(
      look, "container_toolkit", "",
      "sudo nvidia-ctk runtime configure --runtime=docker\n"
      "sudo systemctl restart docker",
      text("needs NVIDIA's package source; restarting Docker stops running containers")));
}

/// The toolkit runs the configured ldconfig in every container with a GPU. If that file does not
/// exist, no such container starts.
void ldconfig_of_toolkit(Examination& look) {
  const auto* path = look.see(look.facts.container.engines.no_ldconfig);
  if (path == nullptr) return;
  Finding& finding =
      look.found(text("NVIDIA's container runtime is configured to run {}, which does not exist: "
                      "no container with a GPU starts",
                      *path));
  finding.evidence.push_back(
      fmt::format("/etc/nvidia-container-runtime/config.toml: ldconfig = \"@{}\"", *path));
  finding.fix.push_back(
      {"sudo nvidia-ctk config --set nvidia-container-cli.ldconfig=@/sbin/ldconfig --in-place",
       text("this is the path on Debian, Fedora and similar systems; on Ubuntu it is "
            "/sbin/ldconfig.real")});
}

/// NVIDIA's container library can only write the device filters of cgroup v1 until release 1.7. On
/// a machine with cgroup v2, containers then get no devices.
void library_before_cgroup_v2(Examination& look) {
  constexpr std::string_view kFirst = "1.8.0";
  const auto& engines = look.facts.container.engines;
  const auto* library = look.see(engines.toolkit_library);
  if (library == nullptr || look.see(engines.cgroup_v2) == nullptr ||
      !is_older(library->version(), kFirst) || library->version().empty())
    return;
  const auto& config = engines.toolkit_config;
  if (config.is_unreadable()) {
    look.see(config);
    return;
  }
  // With either setting, the library writes no device filter, so its version does not matter.
  if (config && (toml_sets(*config, "no-cgroups", "true") || contains(*config, "mode = \"cdi\"")))
    return;
  Finding& finding =
      look.found(text("NVIDIA's container library {} cannot give devices to containers here: this "
                      "machine has cgroup v2, which needs version {} or later of the library",
                      library->version(), kFirst));
  finding.evidence = {fmt::format("{} → {}", library->path, library->target),
                      "/sys/fs/cgroup/cgroup.controllers",
                      "https://github.com/NVIDIA/nvidia-docker/issues/1447"};
  finding.fix.push_back(on_system(look, "container_toolkit_update",
                                  text("also updates libnvidia-container1; if the distribution's "
                                       "version is too old, use NVIDIA's package source")));
}

void runtime_not_configured(Examination& look) {
  if (!is_machine_with_driver(look)) return;
  docker_without_toolkit(look);
  ldconfig_of_toolkit(look);
  library_before_cgroup_v2(look);
  runtimes_of_node(look);
}

bool is_rootless_docker(Examination& look) {
  return contains(variable_or_empty(look, "DOCKER_HOST"), "/run/user/");
}

/// Reports that `docker` uses Docker Desktop, which runs in a virtual machine, although another
/// Docker is installed.
void wrong_context(Examination& look, const std::string& by) {
  Finding& finding =
      look.found(text("the docker command uses Docker Desktop, which runs in a virtual machine "
                      "without the GPU, not this machine's own Docker"));
  finding.evidence = {*look.facts.container.engines.docker_desktop,
                      by.starts_with('/') ? by + ": \"currentContext\": \"desktop-linux\"" : by,
                      "https://github.com/NVIDIA/nvidia-container-toolkit/issues/814"};
  finding.fix.push_back(
      {by.starts_with('/') ? "docker context use default" : "unset DOCKER_CONTEXT",
       text("images and containers are not copied from the current Docker to the other one")});
}

/// With userns-remap, root in a container is an unprivileged user on the host. The toolkit's hook
/// may then fail to write the device filter.
void remapped_users(Examination& look) {
  const auto& engines = look.facts.container.engines;
  const std::string* settings = look.see(engines.daemon_json);
  const std::string* config = look.see(engines.toolkit_config);
  if (settings == nullptr || config == nullptr || !contains(*settings, "\"userns-remap\"") ||
      toml_sets(*config, "mode", "\"cdi\"") || toml_sets(*config, "no-cgroups", "true"))
    return;
  Finding& finding =
      look.found(text("this Docker uses userns-remap (user namespaces), which NVIDIA's container "
                      "hook may not support"));
  finding.severity = Severity::kInfo;
  finding.evidence = {"/etc/docker/daemon.json: userns-remap",
                      "https://github.com/NVIDIA/nvidia-container-toolkit/issues/648"};
  finding.fix.push_back({"docker run --userns=host --gpus all IMAGE",
                         text("use this if a container with a GPU does not start")});
}

void docker_flavour(Examination& look) {
  if (!is_machine_with_driver(look)) return;
  const auto& engines = look.facts.container.engines;
  const bool packaged = look.see(engines.docker) != nullptr;
  const auto* config = look.see(engines.toolkit_config);
  if (is_rootless_docker(look) && config != nullptr && !toml_sets(*config, "no-cgroups", "true")) {
    Finding& finding = look.found(
        text("this Docker is rootless, but NVIDIA's runtime is configured for a rootful one"));
    finding.evidence.push_back(shown_variable(look, "DOCKER_HOST"));
    finding.evidence.push_back(fmt::format(
        "/etc/nvidia-container-runtime/config.toml: no-cgroups = true: {}", tr("missing")));
    finding.fix.push_back(
        {"sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place\n"
         "systemctl --user restart docker",
         text("containers of a rootful Docker on this machine then lose their GPUs")});
    return;
  }
  if (packaged && look.see(engines.docker_desktop) != nullptr)
    if (const auto* by = look.see(engines.uses_docker_desktop)) return wrong_context(look, *by);
  if (packaged) return remapped_users(look);
  const auto* snap = look.see(engines.docker_snap);
  const auto* desktop = look.see(engines.docker_desktop);
  if (snap == nullptr && desktop == nullptr) return;
  if (engines.snap_daemon_json && contains(*engines.snap_daemon_json, "nvidia")) return;
  Finding& finding = look.found(
      snap != nullptr
          ? text("Docker is installed as a snap, which cannot see NVIDIA's container toolkit")
          : text("Docker Desktop on Linux runs in a virtual machine without the GPU"));
  finding.evidence.push_back(snap != nullptr ? *snap : *desktop);
  // Remove the old Docker before the new one is installed, because both use the same socket.
  finding.fix.push_back(on_system_between(
      look, "docker", snap != nullptr ? "sudo snap remove docker" : "",
      "sudo nvidia-ctk runtime configure --runtime=docker\n"
      "sudo systemctl restart docker",
      text("images and containers are not copied from the current Docker to the other one")));
}

void requirement(Examination& look) {
  const auto value = look.facts.process.variable("NVIDIA_REQUIRE_CUDA");
  const auto* wanted = look.see(value);
  if (wanted == nullptr || wanted->empty()) return;
  if (!variable_or_empty(look, "NVIDIA_DISABLE_REQUIRE").empty()) return;
  DriverForImage driver;
  if (look.facts.driver.driver_version)
    driver.version = *look.facts.driver.driver_version;
  else if (const auto* module = look.see(look.facts.files.kernel_module))
    driver.version = *module;
  if (driver.version.empty()) return;
  driver.cuda = look.facts.driver.cuda_version.value_or(
      look.knowledge.compatibility().cuda_of_branch(driver.version));
  if (look.facts.driver.gpus && !look.facts.driver.gpus->empty())
    driver.gpu = look.facts.driver.gpus->front().name.value_or("");
  if (satisfies(*wanted, driver) != Satisfied::kNo) return;
  Finding& finding = look.found(text("the image requires {}, but driver {} supports CUDA {}",
                                     first_condition(*wanted), driver.version, driver.cuda));
  // If the container is running, the runtime has accepted the driver. Programs usually work with a
  // driver of the same CUDA major version.
  const bool same_major =
      contains(first_condition(*wanted), "=" + driver.cuda.substr(0, driver.cuda.find('.') + 1));
  if (same_major && look.facts.driver.cuda_init && *look.facts.driver.cuda_init == 0)
    finding.severity = Severity::kWarning;
  else if (look.facts.container.kind)
    finding.severity = Severity::kError;
  finding.evidence.push_back(fmt::format("NVIDIA_REQUIRE_CUDA={}", *wanted));
  finding.evidence.push_back(
      text("driver {}, which supports CUDA {}", driver.version, driver.cuda));
  finding.fix.push_back(
      {"", text("update the machine's driver, or use an older tag of the image")});
  finding.fix.push_back(
      {"docker run --gpus all -e NVIDIA_DISABLE_REQUIRE=1 IMAGE",
       text("skips the check; code that is compiled at start (PTX) may still fail")});
}

/// Whether container engines ignore this CDI spec in /etc, because /var/run has a spec of the same
/// kind.
bool is_shadowed(const CdiSpec& spec, const std::vector<CdiSpec>& all) {
  return spec.path.starts_with("/etc/") &&
         std::any_of(all.begin(), all.end(), [&](const CdiSpec& other) {
           return other.kind == spec.kind && !other.path.starts_with("/etc/");
         });
}

Fix generate_again(const CdiSpec& spec) {
  return {fmt::format("sudo nvidia-ctk cdi generate --output={}", pasted(spec.path)),
          text("run this again after every driver update; nvidia-cdi-refresh.service of toolkit "
               "1.18 does so automatically")};
}

void stale_spec(Examination& look, const CdiSpec& spec) {
  const auto& module = look.facts.files.kernel_module;
  const bool older = module && !spec.driver_version.empty() && spec.driver_version != *module;
  if (spec.missing_paths.empty() && !older) return;
  Finding& finding = look.found(older ? text("{} describes driver {}, but {} is loaded", spec.path,
                                             spec.driver_version, *module)
                                      : text("{} names files that are no longer there", spec.path));
  for (const std::string& path : spec.missing_paths) {
    if (finding.evidence.size() == 3) break;
    finding.evidence.push_back(fmt::format("{}: {}", path, tr("missing")));
  }
  if (older) finding.evidence.push_back(fmt::format("kernel module nvidia: {}", *module));
  finding.fix.push_back(generate_again(spec));
}

/// Reports a CDI spec with an outdated device number of /dev/nvidia-uvm. The kernel may assign a
/// new major number when it loads nvidia_uvm. Most specs contain no number.
void stale_number(Examination& look, const CdiSpec& spec) {
  const auto& majors = look.facts.nvidia.majors;
  if (spec.uvm_major == 0 || !majors) return;
  const auto row = majors->find("nvidia-uvm");
  if (row == majors->end() || row->second == spec.uvm_major) return;
  Finding& finding = look.found(
      text("{} has the device number {} for /dev/nvidia-uvm, but the loaded module has {}",
           spec.path, spec.uvm_major, row->second));
  finding.evidence.push_back(fmt::format("/proc/devices: {} nvidia-uvm", row->second));
  finding.fix.push_back(generate_again(spec));
}

/// The CDI kind ("default-kind") in the settings of NVIDIA's runtime; "" if the settings do not
/// contain it.
std::string kind_of_runtime(const std::string& config) {
  for (const std::string_view line : split(config, '\n')) {
    if (!trim(line).starts_with("default-kind")) continue;
    const auto first = line.find('"');
    const auto last = line.rfind('"');
    if (first != std::string_view::npos && last > first)
      return std::string(line.substr(first + 1, last - first - 1));
  }
  return "";
}

void unresolvable(Examination& look, const std::vector<CdiSpec>& specs) {
  const auto& config = look.facts.container.engines.toolkit_config;
  std::string asked = config ? kind_of_runtime(*config) : "";
  std::string device;
  const std::string visible = variable_or_empty(look, "NVIDIA_VISIBLE_DEVICES");
  if (const auto equals = visible.find('='); equals != std::string::npos) {
    asked = visible.substr(0, equals);
    device = visible.substr(equals + 1, visible.find(',') - equals - 1);
  }
  if (asked.empty()) return;
  const CdiSpec* spec = nullptr;
  for (const CdiSpec& one : specs)
    if (one.kind == asked) spec = &one;
  if (spec == nullptr && (device.empty() || specs.empty())) return;
  const bool only_all = spec != nullptr && spec->devices == std::vector<std::string>{"all"};
  const bool unknown =
      spec == nullptr || (!device.empty() && std::find(spec->devices.begin(), spec->devices.end(),
                                                       device) == spec->devices.end());
  // The device plugin of Kubernetes requests GPUs one by one, so a spec with only "all" is not
  // enough.
  const bool by_one =
      device.empty() && only_all && look.facts.container.engines.kubelet.has_value();
  if (!unknown && !by_one) return;
  Finding& finding = look.found(
      text("no CDI spec describes {}={}", asked, device.empty() ? std::string("GPU-…") : device));
  if (spec != nullptr)
    finding.evidence.push_back(
        fmt::format("{}: {}: {}", spec->path, spec->kind, fmt::join(spec->devices, ", ")));
  finding.evidence.push_back(device.empty()
                                 ? fmt::format("config.toml: default-kind = \"{}\"", asked)
                                 : fmt::format("NVIDIA_VISIBLE_DEVICES={}", visible));
  finding.fix.push_back(
      {"sudo nvidia-ctk config --set "
       "nvidia-container-runtime.modes.cdi.default-kind=nvidia.com/gpu "
       "--in-place\nsudo nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml",
       text("makes the runtime use the CDI kind that has one device per GPU")});
}

/// Reports a missing CDI spec on a machine with the toolkit and Podman, but without other engines.
void podman_without_spec(Examination& look) {
  const auto& engines = look.facts.container.engines;
  const auto* specs = look.see(engines.cdi);
  if (look.see(engines.podman) == nullptr || look.see(engines.toolkit) == nullptr ||
      specs == nullptr || !specs->empty() || !look.missing(engines.docker) ||
      !look.missing(engines.docker_snap) || !look.missing(engines.kubelet))
    return;
  Finding& finding =
      look.found(text("Podman needs a CDI spec to pass GPUs, and this machine has none"));
  finding.severity = Severity::kWarning;
  finding.evidence = {*engines.podman, fmt::format("/etc/cdi, /run/cdi: {}", tr("missing"))};
  finding.fix.push_back({"sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
                         text("run this again after every driver update")});
}

void cdi_stale(Examination& look) {
  const auto* specs = look.see(look.facts.container.engines.cdi);
  if (specs == nullptr || !look.missing(look.facts.container.kind)) return;
  for (const CdiSpec& spec : *specs)
    if (contains(spec.kind, "nvidia.com/") && !is_shadowed(spec, *specs)) {
      stale_spec(look, spec);
      stale_number(look, spec);
    }
  unresolvable(look, *specs);
  if (is_machine_with_driver(look)) podman_without_spec(look);
}

/// If a CDI spec has a newer format than Podman can read, Podman ignores the spec and only reports
/// an "unresolvable" device.
void spec_too_new(Examination& look, const std::vector<CdiSpec>& specs, const std::string& podman) {
  const auto& formats = look.knowledge.compatibility().podman_cdi;
  const auto row = std::find_if(formats.rbegin(), formats.rend(), [&](const PodmanCdi& one) {
    return !is_older(podman, one.podman);
  });
  if (row == formats.rend() || row == formats.rbegin()) return;
  for (const CdiSpec& spec : specs) {
    if (is_shadowed(spec, specs) || spec.version.empty() || !is_older(row->format, spec.version))
      continue;
    Finding& finding =
        look.found(text("{} is a CDI spec of format {}, but Podman {} only reads formats up to {} "
                        "and ignores this spec",
                        spec.path, spec.version, podman, row->format));
    finding.evidence = {fmt::format("{}: cdiVersion: {}", spec.path, spec.version),
                        fmt::format("/var/lib/dpkg/status: podman {}", podman)};
    if (spec.version == "0.7.0" && contains(spec.kind, "nvidia.com/"))
      finding.fix.push_back(
          {fmt::format("sudo nvidia-ctk cdi generate "
                       "--feature-flag=no-additional-gids-for-device-nodes --output={}",
                       pasted(spec.path)),
           text("leaves out the groups of the device nodes: with them, the toolkit (1.19 and "
                "newer) needs that format")});
    const auto serves = std::find_if(formats.begin(), formats.end(), [&](const PodmanCdi& one) {
      return !is_older(one.format, spec.version);
    });
    finding.fix.push_back(
        {"", text("use Podman {} or later from a newer distribution",
                  serves == formats.end() ? formats.back().podman : serves->podman)});
    return;
  }
}

void cdi_path(Examination& look) {
  if (!is_machine_with_driver(look)) return;
  const auto& engines = look.facts.container.engines;
  if (look.see(engines.podman) == nullptr) return;
  const auto* version = look.see(engines.podman_version);
  if (version == nullptr) return;
  const auto* specs = look.see(engines.cdi);
  if (specs == nullptr) return;
  const std::string podman = version->substr(0, version->find_first_of("+~-"));
  const auto& formats = look.knowledge.compatibility().podman_cdi;
  if (formats.empty()) return;
  const std::string& first = formats.front().podman;
  if (!is_older(podman, first)) return spec_too_new(look, *specs, podman);
  if (specs->empty() && !engines.toolkit) return;
  Finding& finding =
      look.found(text("Podman {} does not support CDI, which is needed to pass the GPU", *version));
  finding.evidence.push_back(fmt::format("/var/lib/dpkg/status: podman {}", *version));
  if (!specs->empty()) finding.evidence.push_back(specs->front().path);
  finding.fix.push_back({"", text("use Podman {} or later from a newer distribution", first)});
  finding.fix.push_back(
      {"podman run --runtime /usr/bin/nvidia-container-runtime IMAGE",
       text("also set the runtime's mode to cdi in /etc/nvidia-container-runtime/config.toml")});
}

constexpr auto kContainerHostRules = std::to_array<Rule>({
    {"CTR03", Layer::kContainer, Severity::kWarning, true,
     msgid("missing links in /dev/char, so that containers lose their GPUs"), "", char_links},
    {"CTR04", Layer::kContainer, Severity::kError, true,
     msgid("a container engine that cannot pass GPUs"), "", runtime_not_configured},
    {"CTR05", Layer::kContainer, Severity::kError, true,
     msgid("a kind of Docker that cannot pass GPUs"), "CTR04", docker_flavour},
    {"CTR08", Layer::kContainer, Severity::kFatal, true,
     msgid("an image that requires a newer driver"), "LIB01", requirement},
    {"CTR09", Layer::kContainer, Severity::kError, true, msgid("an outdated or missing CDI spec"),
     "", cdi_stale},
    {"CTR10", Layer::kContainer, Severity::kError, true,
     msgid("an engine that does not support CDI"), "", cdi_path},
});

}  // namespace

std::span<const Rule> container_host_rules() {
  return kContainerHostRules;
}

}  // namespace berth::doctor
