#include "doctor/facts/container.hpp"
#include "base/json.hpp"
#include "doctor/read/collectors.hpp"

#include <array>
#include <cerrno>

#include "base/text_parts.hpp"
#include "doctor/facts/nvidia.hpp"
#include "system/container.hpp"

namespace berth::doctor {
namespace {

system::ContainerView view_of(const Tree& tree, const ProcessFacts& process) {
  const auto value = [](const Fact<std::string>& fact) {
    return fact ? std::optional<std::string>(*fact) : std::nullopt;
  };
  return {[&tree](const char* path) { return tree.exists(path); },
          [&tree, value](const char* path) { return value(tree.read(path, 1 << 20)); },
          [&process, value](const char* name) { return value(process.variable(name)); }};
}

/// The first path in the list that exists.
Fact<std::string> first_of(const Tree& tree, std::initializer_list<const char*> paths) {
  for (const char* path : paths) {
    const auto node = tree.node(path);
    if (node.is_unreadable()) return node.why();
    if (node) return std::string(path);
  }
  return {};
}

Fact<bool> switched_on(const Fact<std::string>& line) {
  return line.map([](const std::string& text) { return text.starts_with('1'); });
}

Fact<bool> user_namespace(const Tree& tree) {
  return tree.line("/proc/self/uid_map").map([](const std::string& line) {
    std::string words;
    for (const std::string_view word : split(line, ' '))
      if (!trim(word).empty()) words += std::string(trim(word)) + " ";
    return words != "0 0 4294967295 ";
  });
}

/// The version of an installed package, from dpkg's status file. The file has one paragraph for
/// each package, in which the Version line follows the Package line.
Fact<std::string> package_version(const Tree& tree, const std::string& package) {
  return tree.read("/var/lib/dpkg/status", 16 << 20)
      .map([&](const std::string& text) -> std::string {
        const std::string head = "Package: " + package + "\n";
        std::size_t at = text.starts_with(head) ? 0 : text.find("\n" + head);
        if (at == std::string::npos) return "";
        at = text.find("\nVersion: ", at);
        if (at == std::string::npos) return "";
        at += 10;
        return text.substr(at, text.find('\n', at) - at);
      });
}

/// Versions of installed container packages. Packages that were removed except for their settings
/// do not count.
Fact<std::map<std::string, std::string>> container_packages(const Tree& tree) {
  return tree.read(std::string(kPackagesFile), 16 << 20).map([](const std::string& text) {
    std::map<std::string, std::string> found;
    for (const char* name :
         {"docker-ce", "docker.io", "nvidia-container-toolkit", "libnvidia-container1", "enroot"}) {
      const std::string head = "Package: " + std::string(name) + "\n";
      std::size_t at = text.starts_with(head) ? 0 : text.find("\n" + head);
      if (at == std::string::npos) continue;
      const std::string paragraph = text.substr(at, text.find("\n\n", at) - at);
      at = paragraph.find("\nVersion: ");
      if (at == std::string::npos || paragraph.find(" config-files\n") != std::string::npos)
        continue;
      std::string version = paragraph.substr(at + 10, paragraph.find('\n', at + 10) - at - 10);
      // removes the epoch: "5:28.0" becomes "28.0"
      found[name] = version.substr(version.find(':') + 1);
    }
    return found;
  });
}

/// Whether there is a kernel module for the raw table. Docker 28 and later need it, but kernels of
/// Jetson Linux were built without it. Absent (unknown) if the other tables are not modules either:
/// all of them may be part of the kernel.
Fact<bool> raw_table(const Tree& tree) {
  const auto kernel = tree.line("/proc/sys/kernel/osrelease");
  if (!tree.exists("/etc/nv_tegra_release")) return {};
  if (!kernel) return Unreadable{"/proc/sys/kernel/osrelease", ENOENT};
  const auto list = tree.read("/lib/modules/" + *kernel + "/modules.dep", 4 << 20);
  if (list.is_unreadable()) return list.why();
  if (!list || list->find("/iptable_") == std::string::npos) return {};
  return list->find("/iptable_raw.ko") != std::string::npos;
}

Fact<std::vector<RuntimeSettings>> node_runtimes(const Tree& tree) {
  std::vector<RuntimeSettings> found;
  for (const char* path :
       {"/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml",
        "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
        "/var/lib/rancher/rke2/agent/etc/containerd/config.toml", "/etc/crio/crio.conf",
        "/etc/crio/crio.conf.d/99-nvidia.conf", "/etc/crio/crio.conf.d/99-nvidia.toml"}) {
    auto text = tree.read(path, 1 << 20);
    if (text.is_unreadable()) return text.why();
    if (text) found.push_back({path, *std::move(text)});
  }
  return found.empty() ? Fact<std::vector<RuntimeSettings>>() : std::move(found);
}

Fact<std::string> char_links_rule(const Tree& tree) {
  for (const std::string folder :
       {"/lib/udev/rules.d", "/usr/lib/udev/rules.d", "/etc/udev/rules.d"}) {
    for (const std::string& name : tree.list(folder, 1000).value_or({})) {
      if (name.find("nvidia") == std::string::npos) continue;
      const auto text = tree.read(folder + "/" + name);
      if (text && text->find("create-dev-char-symlinks") != std::string::npos)
        return folder + "/" + name;
    }
  }
  return {};
}

/// The ldconfig that the toolkit's settings name, if this file is missing. On Ubuntu, the setting
/// is "@/sbin/ldconfig.real"; Debian and Fedora only have /sbin/ldconfig.
Fact<std::string> missing_ldconfig(const Tree& tree, const Fact<std::string>& config) {
  if (config.is_unreadable()) return config.why();
  const std::string text = config.value_or("");
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    const auto from = line.find("\"@/");
    if (!line.starts_with("ldconfig") || from == std::string_view::npos) continue;
    const std::string path(line.substr(from + 2, line.find('"', from + 1) - from - 2));
    // If the tree has no ldconfig at all, its programs were not recorded.
    const bool others = tree.exists("/sbin/ldconfig") || tree.exists("/usr/sbin/ldconfig");
    const auto named = tree.node(path);
    if (named.is_unreadable()) return named.why();
    if (others && named.is_absent()) return path;
  }
  return {};
}

Fact<LibraryFile> toolkit_library(const Tree& tree) {
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64", "/usr/lib", "/usr/local/lib"}) {
    const std::string path = std::string(folder) + "/libnvidia-container.so.1";
    if (const auto target = tree.resolve(path)) return LibraryFile{path, *target};
  }
  return {};
}

/// The setting that makes `docker` use Docker Desktop; absent: none. Docker Desktop makes its own
/// context the default at its first start. DOCKER_HOST overrides DOCKER_CONTEXT, which overrides
/// the settings file.
Fact<std::string> docker_desktops_context(const Tree& tree, const ProcessFacts& process) {
  constexpr std::string_view kContext = "desktop-linux";
  if (process.environment.is_unreadable()) return process.environment.why();
  const auto value = [&](const char* name) { return process.variable(name).value_or(""); };
  if (!value("DOCKER_HOST").empty()) return {};
  if (const std::string chosen = value("DOCKER_CONTEXT"); !chosen.empty())
    return chosen == kContext ? Fact<std::string>("DOCKER_CONTEXT=" + chosen) : Fact<std::string>();
  const std::string folder = value("DOCKER_CONFIG"), home = value("HOME");
  if (folder.empty() && home.empty()) return {};
  const std::string path = (folder.empty() ? home + "/.docker" : folder) + "/config.json";
  const auto text = tree.read(path, 1 << 20);
  if (!text) return text;
  const auto settings = nlohmann::json::parse(*text, nullptr, false);
  if (!settings.is_object() || settings.value("currentContext", nlohmann::json()) != kContext)
    return {};
  return path;
}

ContainerEngines engines_of(const Tree& tree, const ProcessFacts& process) {
  ContainerEngines found;
  found.docker =
      first_of(tree, {"/usr/bin/dockerd", "/usr/sbin/dockerd", "/usr/local/bin/dockerd"});
  found.docker_socket = first_of(tree, {"/run/docker.sock", "/var/run/docker.sock"});
  found.docker_snap = first_of(tree, {"/snap/docker", "/var/snap/docker", "/snap/bin/docker"});
  found.docker_desktop = first_of(tree, {"/opt/docker-desktop"});
  found.uses_docker_desktop = docker_desktops_context(tree, process);
  found.podman = first_of(tree, {"/usr/bin/podman", "/usr/local/bin/podman"});
  if (found.podman) {
    found.podman_version = package_version(tree, "podman");
    if (found.podman_version && found.podman_version->empty()) found.podman_version = {};
  }
  found.kubelet = first_of(tree, {"/var/lib/kubelet", "/etc/kubernetes/kubelet.conf",
                                  "/var/lib/rancher/k3s", "/var/lib/rancher/rke2"});
  found.packages = container_packages(tree);
  found.raw_table = raw_table(tree);
  found.daemon_json = tree.read("/etc/docker/daemon.json");
  found.snap_daemon_json = tree.read("/var/snap/docker/current/config/daemon.json");
  found.node_runtimes = node_runtimes(tree);
  found.toolkit = first_of(
      tree,
      {"/usr/bin/nvidia-container-runtime-hook", "/usr/bin/nvidia-container-toolkit",
       "/usr/bin/nvidia-container-runtime", "/usr/local/nvidia/toolkit/nvidia-container-runtime",
       "/usr/local/bin/nvidia-container-runtime-hook", "/usr/local/bin/nvidia-container-runtime",
       "/run/current-system/sw/bin/nvidia-ctk"});
  found.toolkit_config = tree.read("/etc/nvidia-container-runtime/config.toml");
  found.toolkit_library = tree.watched([&] { return toolkit_library(tree); });
  found.no_ldconfig = tree.watched([&] { return missing_ldconfig(tree, found.toolkit_config); });
  found.cdi = collect_cdi(tree);
  found.char_links_rule = char_links_rule(tree);
  found.cgroup_v2 =
      tree.node("/sys/fs/cgroup/cgroup.controllers").map([](const Node&) { return true; });
  if (found.kubelet) {
    found.plugin_sockets = tree.list("/var/lib/kubelet/device-plugins");
    found.claims_driver =
        tree.node("/var/lib/kubelet/plugins/gpu.nvidia.com").map([](const Node&) { return true; });
  }
  return found;
}

}  // namespace

ContainerFacts collect_container(const Tree& tree, const ProcessFacts& process) {
  ContainerFacts facts;
  const system::ContainerView view = view_of(tree, process);
  const auto told = [&](system::Container found) -> Fact<std::string> {
    facts.marker = std::move(found.marker);
    return found.kind.empty() ? Fact<std::string>() : std::move(found.kind);
  };
  facts.kind = tree.watched([&] { return told(system::container_by_files(view)); });
  if (facts.kind.is_absent()) facts.kind = told(system::container_by_variables(view));
  facts.user_namespace = user_namespace(tree);
  facts.devices_list = tree.read("/sys/fs/cgroup/devices/devices.list");
  facts.label = tree.line("/proc/self/attr/current");
  // On a kernel without SELinux, reading the label fails with EINVAL.
  if (facts.label.is_unreadable() && facts.label.why().error_number == EINVAL) facts.label = {};
  facts.selinux_enforcing = switched_on(tree.line("/sys/fs/selinux/enforce"));
  facts.selinux_devices = switched_on(tree.line("/sys/fs/selinux/booleans/container_use_devices"));
  facts.singularity_libraries = tree.list("/.singularity.d/libs");
  facts.infiniband = tree.list("/sys/class/infiniband");
  if (first_of(tree, {"/usr/bin/distrobox-export", "/usr/bin/distrobox-host-exec"}))
    facts.box = std::string("distrobox");
  else if (tree.exists("/run/.toolboxenv"))
    facts.box = std::string("toolbox");
  if (facts.box)
    facts.host_cuda = first_of(
        tree,
        {"/run/host/usr/lib64/libcuda.so.1", "/run/host/usr/lib/x86_64-linux-gnu/libcuda.so.1",
         "/run/host/usr/lib/aarch64-linux-gnu/libcuda.so.1", "/run/host/usr/lib/libcuda.so.1",
         "/run/host/run/opengl-driver/lib/libcuda.so.1"});
  facts.engines = engines_of(tree, process);
  facts.slurm = tree.watched([&] { return collect_slurm(tree); });
  facts.plugin_sockets = tree.list("/var/lib/kubelet/device-plugins", 200);
  facts.kubelet_plugins = tree.list("/var/lib/kubelet/plugins", 200);
  return facts;
}

}  // namespace berth::doctor
