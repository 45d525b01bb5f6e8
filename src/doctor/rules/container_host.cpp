// Rules CTR of a machine that has to give its GPUs to containers: is every part set up that does
// so? And what an image asks of the driver.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/container_nodes.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/requirement.hpp"
#include "doctor/rules/sight.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// A machine (not a container) whose NVIDIA driver is loaded: only there the rest is the next
/// thing to look at.
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
  Finding& finding = look.found(
      text("containers will lose their GPUs at the next systemctl daemon-reload: systemd finds "
           "NVIDIA's nodes by links that are not there"));
  finding.evidence.push_back(
      fmt::format("/dev/char/195:*: {}; {}; {}", tr("not there"), gpus->front().path, *toolkit));
  finding.evidence.push_back(engines.cgroup_v2 ? "/sys/fs/cgroup/cgroup.controllers"
                                               : "native.cgroupdriver=systemd");
  finding.fix.push_back({"sudo nvidia-ctk system create-dev-char-symlinks --create-all",
                         text("until the next boot; a udev rule that runs it makes it last")});
  finding.fix.push_back(
      {"sudo nvidia-ctk config --set nvidia-container-runtime.mode=cdi --in-place\n"
       "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
       text("or: the engine itself then passes the nodes")});
}

/// The engine would have to be told, and was not.
void docker_without_toolkit(Examination& look) {
  const auto& engines = look.facts.container.engines;
  const auto* docker = look.see(engines.docker);
  if (docker == nullptr || !look.missing(engines.toolkit)) return;
  const auto* specs = look.see(engines.cdi);
  if (specs == nullptr || !specs->empty() || engines.daemon_json.is_unreadable()) return;
  Finding& finding =
      look.found(text("Docker on this machine cannot give a GPU to a container: NVIDIA's container "
                      "toolkit is not installed"));
  // A setting that names it breaks every container that asks; without, nobody may miss it.
  const bool named = engines.daemon_json && contains(*engines.daemon_json, "nvidia");
  if (!named) finding.severity = Severity::kWarning;
  finding.evidence.push_back(
      fmt::format("{}; /usr/bin/nvidia-container-runtime-hook: {}", *docker, tr("not there")));
  if (engines.daemon_json)
    finding.evidence.push_back(
        fmt::format("/etc/docker/daemon.json: nvidia: {}", named ? "runtimes" : tr("not there")));
  finding.fix.push_back(
      on_system_between(look, "container_toolkit", "",
                        "sudo nvidia-ctk runtime configure --runtime=docker\n"
                        "sudo systemctl restart docker",
                        text("from NVIDIA's package source; restarts running containers")));
}

/// The toolkit runs it in every container, so that none starts.
void ldconfig_of_toolkit(Examination& look) {
  const auto* path = look.see(look.facts.container.engines.no_ldconfig);
  if (path == nullptr) return;
  Finding& finding = look.found(
      text("NVIDIA's container runtime is told to run {}, which is not there: no container with a "
           "GPU starts",
           *path));
  finding.evidence.push_back(
      fmt::format("/etc/nvidia-container-runtime/config.toml: ldconfig = \"@{}\"", *path));
  finding.fix.push_back(
      {"sudo nvidia-ctk config --set nvidia-container-cli.ldconfig=@/sbin/ldconfig --in-place",
       text("its place on Debian, Fedora and their like; Ubuntu has /sbin/ldconfig.real")});
}

/// Up to 1.7 it knows the device files of cgroup v1 alone, and writes no filter where there are
/// none.
void library_before_cgroup_v2(Examination& look) {
  constexpr std::string_view kFirst = "1.8.0";
  const auto& engines = look.facts.container.engines;
  const auto* library = look.see(engines.toolkit_library);
  if (library == nullptr || look.see(engines.cgroup_v2) == nullptr ||
      !version_less(library->version(), kFirst) || library->version().empty())
    return;
  const auto& config = engines.toolkit_config;
  if (config.is_unreadable()) {
    look.see(config);
    return;
  }
  // Neither asks it to write one.
  if (config && (toml_sets(*config, "no-cgroups", "true") || contains(*config, "mode = \"cdi\"")))
    return;
  Finding& finding =
      look.found(text("NVIDIA's container library {} cannot give devices to containers here: this "
                      "machine has cgroup v2, which {} is the first to know",
                      library->version(), kFirst));
  finding.evidence = {fmt::format("{} → {}", library->path, library->target),
                      "/sys/fs/cgroup/cgroup.controllers",
                      "https://github.com/NVIDIA/nvidia-docker/issues/1447"};
  finding.fix.push_back(on_system(look, "container_toolkit_update",
                                  text("libnvidia-container1 goes with it; where the distribution "
                                       "has none so new, from NVIDIA's package source")));
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

/// Two Dockers, of which `docker` speaks to the one in a virtual machine.
void wrong_context(Examination& look, const std::string& by) {
  Finding& finding =
      look.found(text("docker speaks to Docker Desktop here, which runs in a virtual machine "
                      "without the GPU, and not to the machine's own Docker"));
  finding.evidence = {*look.facts.container.engines.docker_desktop,
                      by.starts_with('/') ? by + ": \"currentContext\": \"desktop-linux\"" : by,
                      "https://github.com/NVIDIA/nvidia-container-toolkit/issues/814"};
  finding.fix.push_back(
      {by.starts_with('/') ? "docker context use default" : "unset DOCKER_CONTEXT",
       text("images and containers of the other Docker are not taken along")});
}

/// Root in a container is nobody outside, who may not write the device rules of the toolkit's hook.
void remapped_users(Examination& look) {
  const auto& engines = look.facts.container.engines;
  const std::string* settings = look.see(engines.daemon_json);
  const std::string* config = look.see(engines.toolkit_config);
  if (settings == nullptr || config == nullptr || !contains(*settings, "\"userns-remap\"") ||
      toml_sets(*config, "mode", "\"cdi\"") || toml_sets(*config, "no-cgroups", "true"))
    return;
  Finding& finding = look.found(
      text("this Docker gives containers other users than the machine's, which NVIDIA's hook may "
           "not serve"));
  finding.severity = Severity::kInfo;
  finding.evidence = {"/etc/docker/daemon.json: userns-remap",
                      "https://github.com/NVIDIA/nvidia-container-toolkit/issues/648"};
  finding.fix.push_back({"docker run --userns=host --gpus all IMAGE",
                         text("where a container with a GPU does not start")});
}

void docker_flavour(Examination& look) {
  if (!is_machine_with_driver(look)) return;
  const auto& engines = look.facts.container.engines;
  const bool packaged = look.see(engines.docker) != nullptr;
  const auto* config = look.see(engines.toolkit_config);
  if (is_rootless_docker(look) && config != nullptr && !toml_sets(*config, "no-cgroups", "true")) {
    Finding& finding =
        look.found(text("this Docker runs without root, and NVIDIA's runtime is set "
                        "up for one that has it"));
    finding.evidence.push_back(shown_variable(look, "DOCKER_HOST"));
    finding.evidence.push_back(fmt::format(
        "/etc/nvidia-container-runtime/config.toml: no-cgroups = true: {}", tr("not there")));
    finding.fix.push_back(
        {"sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place\n"
         "systemctl --user restart docker",
         text("takes GPUs from containers of a Docker with root on the same machine")});
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
          ? text("Docker comes from a snap here, which does not see NVIDIA's container toolkit")
          : text("Docker Desktop on Linux runs in a virtual machine without the GPU"));
  finding.evidence.push_back(snap != nullptr ? *snap : *desktop);
  // One after the other: both Dockers at once would fight for the socket.
  finding.fix.push_back(
      on_system_between(look, "docker", snap != nullptr ? "sudo snap remove docker" : "",
                        "sudo nvidia-ctk runtime configure --runtime=docker\n"
                        "sudo systemctl restart docker",
                        text("images and containers of the other Docker are not taken along")));
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
  driver.cuda = look.facts.driver.cuda_version.value_or(cuda_of_driver(driver.version));
  if (look.facts.driver.gpus && !look.facts.driver.gpus->empty())
    driver.gpu = look.facts.driver.gpus->front().name.value_or("");
  if (satisfies(*wanted, driver) != Satisfied::kNo) return;
  Finding& finding = look.found(text("the image wants {}, and driver {} serves CUDA {}",
                                     first_condition(*wanted), driver.version, driver.cuda));
  // It runs all the same where the runtime did not ask: minor versions are compatible.
  const bool same_major =
      contains(first_condition(*wanted), "=" + driver.cuda.substr(0, driver.cuda.find('.') + 1));
  if (same_major && look.facts.driver.cuda_init && *look.facts.driver.cuda_init == 0)
    finding.severity = Severity::kWarning;
  finding.evidence.push_back(fmt::format("NVIDIA_REQUIRE_CUDA={}", *wanted));
  finding.evidence.push_back(text("driver {}, which serves CUDA {}", driver.version, driver.cuda));
  finding.fix.push_back(
      {"", text("update the machine's driver, or take an older tag of the image")});
  finding.fix.push_back({"docker run --gpus all -e NVIDIA_DISABLE_REQUIRE=1 IMAGE",
                         text("skips the question: code that is compiled when it starts (PTX) may "
                              "still fail")});
}

/// The spec that engines take for a kind: /var/run before /etc.
bool is_shadowed(const CdiSpec& spec, const std::vector<CdiSpec>& all) {
  return spec.path.starts_with("/etc/") &&
         std::any_of(all.begin(), all.end(), [&](const CdiSpec& other) {
           return other.kind == spec.kind && !other.path.starts_with("/etc/");
         });
}

Fix generate_again(const CdiSpec& spec) {
  return {fmt::format("sudo nvidia-ctk cdi generate --output={}", pasted(spec.path)),
          text("again after every driver update; nvidia-cdi-refresh.service of toolkit 1.18 does "
               "so by itself")};
}

void stale_spec(Examination& look, const CdiSpec& spec) {
  const auto& module = look.facts.files.kernel_module;
  const bool older = module && !spec.driver_version.empty() && spec.driver_version != *module;
  if (spec.missing_paths.empty() && !older) return;
  Finding& finding = look.found(older ? text("{} describes driver {}, and {} is loaded", spec.path,
                                             spec.driver_version, *module)
                                      : text("{} names files that are no longer there", spec.path));
  for (const std::string& path : spec.missing_paths) {
    if (finding.evidence.size() == 3) break;
    finding.evidence.push_back(fmt::format("{}: {}", path, tr("not there")));
  }
  if (older) finding.evidence.push_back(fmt::format("kernel module nvidia: {}", *module));
  finding.fix.push_back(generate_again(spec));
}

/// The kernel gives nvidia_uvm another number whenever it is loaded; most specs name none.
void stale_number(Examination& look, const CdiSpec& spec) {
  const auto& majors = look.facts.nvidia.majors;
  if (spec.uvm_major == 0 || !majors) return;
  const auto row = majors->find("nvidia-uvm");
  if (row == majors->end() || row->second == spec.uvm_major) return;
  Finding& finding =
      look.found(text("{} gives /dev/nvidia-uvm the number {}, and it is {} since "
                      "the module was loaded",
                      spec.path, spec.uvm_major, row->second));
  finding.evidence.push_back(fmt::format("/proc/devices: {} nvidia-uvm", row->second));
  finding.fix.push_back(generate_again(spec));
}

/// The kind that the runtime asks by, when it was set to another than the usual one.
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
  // A node's plugin asks for GPUs one by one.
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
       text("asks by the kind that has a device for each GPU")});
}

/// The toolkit is there for Podman alone, and nobody has let it describe the GPUs.
void podman_without_spec(Examination& look) {
  const auto& engines = look.facts.container.engines;
  const auto* specs = look.see(engines.cdi);
  if (look.see(engines.podman) == nullptr || look.see(engines.toolkit) == nullptr ||
      specs == nullptr || !specs->empty() || !look.missing(engines.docker) ||
      !look.missing(engines.docker_snap) || !look.missing(engines.kubelet))
    return;
  Finding& finding =
      look.found(text("Podman passes GPUs by a CDI spec, and there is none on this machine"));
  finding.severity = Severity::kWarning;
  finding.evidence = {*engines.podman, fmt::format("/etc/cdi, /var/run/cdi: {}", tr("not there"))};
  finding.fix.push_back({"sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
                         text("again after every driver update")});
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

struct PodmanCdi {
  std::string_view podman, format;
};
/// The newest format of CDI specs that releases of Podman read, by go.mod of their tags.
constexpr auto kPodmanCdi = std::to_array<PodmanCdi>({{"4.1.0", "0.4.0"},
                                                      {"4.3.0", "0.5.0"},
                                                      {"4.7.0", "0.6.0"},
                                                      {"5.1.0", "0.7.0"},
                                                      {"5.2.0", "0.8.0"},
                                                      {"5.5.0", "1.0.0"}});

/// Podman leaves out a whole spec of a format that it does not know, and says only that a device is
/// "unresolvable".
void spec_too_new(Examination& look, const std::vector<CdiSpec>& specs, const std::string& podman) {
  const auto row = std::find_if(kPodmanCdi.rbegin(), kPodmanCdi.rend(), [&](const PodmanCdi& one) {
    return !version_less(podman, one.podman);
  });
  if (row == kPodmanCdi.rend() || row == kPodmanCdi.rbegin()) return;
  for (const CdiSpec& spec : specs) {
    if (is_shadowed(spec, specs) || spec.version.empty() ||
        !version_less(row->format, spec.version))
      continue;
    Finding& finding = look.found(
        text("{} is a CDI spec of format {}, and Podman {} reads up to {}: it leaves the spec out",
             spec.path, spec.version, podman, row->format));
    finding.evidence = {fmt::format("{}: cdiVersion: {}", spec.path, spec.version),
                        fmt::format("/var/lib/dpkg/status: podman {}", podman)};
    if (spec.version == "0.7.0" && contains(spec.kind, "nvidia.com/"))
      finding.fix.push_back(
          {fmt::format("sudo nvidia-ctk cdi generate "
                       "--feature-flag=no-additional-gids-for-device-nodes --output={}",
                       pasted(spec.path)),
           text("leaves out the nodes' groups, for which the toolkit takes that format since "
                "1.19")});
    const auto serves =
        std::find_if(kPodmanCdi.begin(), kPodmanCdi.end(),
                     [&](const PodmanCdi& one) { return !version_less(one.format, spec.version); });
    finding.fix.push_back({"", text("take Podman {} or later from a newer distribution",
                                    serves == kPodmanCdi.end() ? "5.5.0" : serves->podman)});
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
  if (!version_less(podman, "4.1.0")) return spec_too_new(look, *specs, podman);
  if (specs->empty() && !engines.toolkit) return;
  Finding& finding =
      look.found(text("Podman {} does not know CDI, by which it would pass the GPU", *version));
  finding.evidence.push_back(fmt::format("/var/lib/dpkg/status: podman {}", *version));
  if (!specs->empty()) finding.evidence.push_back(specs->front().path);
  finding.fix.push_back({"", text("take Podman {} or later from a newer distribution", "4.1.0")});
  finding.fix.push_back({"podman run --runtime /usr/bin/nvidia-container-runtime IMAGE",
                         text("with the runtime's mode set to cdi in "
                              "/etc/nvidia-container-runtime/config.toml")});
}

constexpr auto kRules = std::to_array<Rule>({
    {"CTR03", Layer::kContainer, Severity::kWarning, true,
     msgid("links without which containers lose their GPUs"), "", char_links},
    {"CTR04", Layer::kContainer, Severity::kError, true,
     msgid("a container engine that cannot pass GPUs"), "", runtime_not_configured},
    {"CTR05", Layer::kContainer, Severity::kError, true,
     msgid("a kind of Docker that cannot pass GPUs"), "CTR04", docker_flavour},
    {"CTR08", Layer::kContainer, Severity::kFatal, true,
     msgid("an image that wants a newer driver"), "LIB01", requirement},
    {"CTR09", Layer::kContainer, Severity::kError, true,
     msgid("a CDI spec that is out of date, or not there"), "", cdi_stale},
    {"CTR10", Layer::kContainer, Severity::kError, true, msgid("an engine that does not know CDI"),
     "", cdi_path},
});

}  // namespace

std::span<const Rule> container_host_rules() {
  return kRules;
}

}  // namespace berth::doctor
