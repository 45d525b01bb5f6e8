#include "doctor/rules/container_nodes.hpp"

#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// The settings that the container engine of a Kubernetes node reads. `text` has all files without
/// comments; `path` is the first file.
struct NodeSettings {
  std::string path, text;
  std::string unread;  // a file that mentions NVIDIA, but is not read by the engine
  /// A file that uses the CRI plugin's old name, from version 2 of the format.
  std::string old_names;
  bool new_names = false;  // whether a file uses the plugin's new name, from version 3
};

std::string without_comments(std::string_view toml) {
  std::string text;
  for (const std::string_view line : split(toml, '\n'))
    if (!trim(line).starts_with('#')) text += std::string(line) + '\n';
  return text;
}

/// Collects the settings that have an effect. k3s and RKE2 start their own containerd and generate
/// its settings, so they ignore the files in /etc.
NodeSettings settings_of_node(const std::vector<RuntimeSettings>& files) {
  NodeSettings read;
  const bool rancher = std::any_of(files.begin(), files.end(), [](const RuntimeSettings& file) {
    return file.path.starts_with("/var/lib/rancher/");
  });
  for (const RuntimeSettings& file : files) {
    const std::string text = without_comments(file.text);
    const bool own = file.path.starts_with("/var/lib/rancher/");
    const bool dropped = contains(file.path, "/containerd/conf.d/");
    if (own == rancher && (!dropped || read.path.empty() || contains(read.text, "imports"))) {
      if (read.path.empty()) read.path = file.path;
      read.text += text;
      if (!contains(text, "nvidia")) continue;
      if (contains(text, "io.containerd.cri.v1.runtime"))
        read.new_names = true;
      else if (contains(text, "io.containerd.grpc.v1.cri"))
        read.old_names = file.path;
    } else if (contains(text, "nvidia")) {
      read.unread = file.path;
    }
  }
  return read;
}

/// Why NVIDIA's runtime has no effect although a settings file contains it, as a sentence. Returns
/// "" if it has an effect, or if no file contains it.
std::string ignored_words(const NodeSettings& read) {
  for (const std::string_view line : split(read.text, '\n'))
    if (trim(line).starts_with("disabled_plugins") && contains(line, "cri\""))
      return text("{} disables the CRI, which the kubelet needs to start containers", read.path);
  if (!contains(read.text, "nvidia"))
    return read.unread.empty()
               ? ""
               : text("{} configures NVIDIA's runtime, but the container engine reads {}",
                      read.unread, read.path);
  // containerd 2 renamed the CRI plugin. It first merges all files and applies their highest
  // version number to the result. In version 3, the old name is not converted:
  // https://github.com/containerd/containerd/pull/12891
  if (!contains(read.text, "version = 3") || read.new_names || read.old_names.empty()) return "";
  return read.old_names == read.path ? text(
                                           "{} is of version 3, but uses the plugin name of "
                                           "version 2: NVIDIA's runtime is ignored",
                                           read.path)
                                     : text(
                                           "{} uses the plugin name of version 2, but {} is of "
                                           "version 3: NVIDIA's runtime is ignored",
                                           read.old_names, read.path);
}

bool node_without_runtime(Examination& look) {
  const auto& engines = look.facts.container.engines;
  const auto* node = look.see(engines.kubelet);
  if (node == nullptr) return false;
  const auto* files = look.see(engines.node_runtimes);
  const auto* specs = look.see(engines.cdi);
  if (files == nullptr || specs == nullptr) return false;
  // A registered device plugin can give GPUs to pods without NVIDIA's runtime, for example on GKE.
  const auto* sockets = look.see(engines.plugin_sockets);
  if (engines.plugin_sockets.is_unreadable() || (sockets != nullptr && has_gpu_plugin(*sockets)))
    return false;
  const NodeSettings read = settings_of_node(*files);
  const std::string why = ignored_words(read);
  if (!specs->empty() || (why.empty() && contains(read.text, "nvidia"))) return false;
  // Docker's packages disable the CRI in containerd. The kubelet then uses another engine.
  const bool by_crio = std::any_of(files->begin(), files->end(), [](const RuntimeSettings& file) {
    return contains(file.path, "/crio/") && contains(file.text, "nvidia");
  });
  if (by_crio || (contains(why, "CRI") && engines.docker)) return false;
  Finding& finding =
      look.found(text("NVIDIA's runtime is not configured in this machine's container runtime, so "
                      "no pod can get a GPU"));
  finding.severity = Severity::kWarning;
  if (!why.empty()) finding.evidence.push_back(why);
  finding.evidence.push_back(fmt::format("{}; {}: nvidia: {}", *node, read.path, tr("missing")));
  if (contains(read.path, "/k3s/") || contains(read.path, "/rke2/")) {
    finding.fix.push_back(
        {contains(read.path, "/k3s/") ? "sudo systemctl restart k3s"
                                      : "sudo systemctl restart rke2-server",
         text("k3s and RKE2 detect NVIDIA's runtime at start and write that file themselves; on an "
              "agent node, the unit is k3s-agent or rke2-agent")});
    return true;
  }
  finding.fix.push_back(
      {"sudo nvidia-ctk runtime configure --runtime=containerd --set-as-default\n"
       "sudo systemctl restart containerd",
       text("or let NVIDIA's GPU operator configure the runtime")});
  if (contains(why, "CRI"))
    finding.fix.insert(
        finding.fix.begin(),
        {"sudo sed -i '/^ *disabled_plugins/d' " + pasted(read.path),
         text("removes the line with disabled_plugins, which Docker's containerd package writes")});
  return true;
}

/// Whether the kubelet runs, but has neither a GPU device plugin of any vendor nor a driver for
/// resource claims.
bool offers_no_gpu(Examination& look) {
  const auto& engines = look.facts.container.engines;
  const auto* sockets = look.see_whole(engines.plugin_sockets);
  if (sockets == nullptr || !look.missing(engines.claims_driver)) return false;
  return std::find(sockets->begin(), sockets->end(), "kubelet.sock") != sockets->end() &&
         !has_gpu_plugin(*sockets);
}

/// Whether the setting `key` makes NVIDIA's runtime the default: "default_runtime_name = 'nvidia'",
/// or '"default-runtime": "nvidia"' for Docker.
bool is_default(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n'))
    if (contains(line, key) && contains(line.substr(line.find(key)), "nvidia")) return true;
  return false;
}

/// Reports a runtime of NVIDIA's that is configured but not the default, so pods must request it by
/// name. NVIDIA's device plugin, installed as documented, does not request it and finds no GPUs.
void not_the_default(Examination& look) {
  const auto& engines = look.facts.container.engines;
  const auto* node = look.see(engines.kubelet);
  const auto* specs = look.see(engines.cdi);
  if (node == nullptr || specs == nullptr || !specs->empty()) return;
  const NodeSettings read = settings_of_node(engines.node_runtimes.value_or({}));
  const bool by_docker =
      engines.docker && (read.path.empty() || contains(ignored_words(read), "CRI"));
  if (contains(read.path, "/crio/") || engines.node_runtimes.is_unreadable()) return;
  const std::string text_of = by_docker ? engines.daemon_json.value_or("") : read.text;
  const bool known = by_docker ? contains(text_of, "\"nvidia\"")
                               : contains(text_of, "runtimes.nvidia]") ||
                                     contains(text_of, "runtimes.\"nvidia\"]") ||
                                     contains(text_of, "runtimes.'nvidia']");
  if (!known || is_default(text_of, by_docker ? "\"default-runtime\"" : "default_runtime_name") ||
      !offers_no_gpu(look))
    return;
  const std::string file = by_docker ? "/etc/docker/daemon.json" : read.path;
  Finding& finding =
      look.found(text("this node offers no GPU: NVIDIA's runtime is not the default of {}, so pods "
                      "must request it by name",
                      file));
  finding.severity = Severity::kWarning;
  finding.evidence = {
      fmt::format("{}: {}: {}", file, by_docker ? "default-runtime" : "default_runtime_name",
                  tr("missing")),
      fmt::format("/var/lib/kubelet/device-plugins/nvidia*.sock: {}", tr("missing")),
      "https://github.com/NVIDIA/k8s-device-plugin/issues/478"};
  const bool rke = contains(file, "/rke2/");
  if (contains(file, "/k3s/") || rke)
    finding.fix.push_back(
        {fmt::format("echo 'default-runtime: nvidia' | sudo tee -a /etc/rancher/{0}/config.yaml\n"
                     "sudo systemctl restart {1}",
                     rke ? "rke2" : "k3s", rke ? "rke2-server" : "k3s"),
         text("on an agent node, the unit is k3s-agent or rke2-agent")});
  else
    finding.fix.push_back({fmt::format("sudo nvidia-ctk runtime configure --runtime={0} "
                                       "--set-as-default\nsudo systemctl restart {0}",
                                       by_docker ? "docker" : "containerd"),
                           ""});
  finding.fix.push_back({install_device_plugin("--set runtimeClassName=nvidia"),
                         text("or keep the default runtime, and set runtimeClassName: nvidia in "
                              "the device plugin's pods and in all pods with a GPU")});
}

}  // namespace

void runtimes_of_node(Examination& look) {
  if (!node_without_runtime(look)) not_the_default(look);
}

bool has_gpu_plugin(const std::vector<std::string>& sockets) {
  constexpr auto kNames =
      std::to_array<std::string_view>({"nvidia", "gpu", "hami", "volcano", "vcuda", "mps"});
  return std::any_of(sockets.begin(), sockets.end(), [&](const std::string& name) {
    return name.ends_with(".sock") && name != "kubelet.sock" &&
           std::any_of(kNames.begin(), kNames.end(),
                       [&](std::string_view part) { return contains(name, part); });
  });
}

std::string install_device_plugin(const std::string& more) {
  return "helm upgrade -i nvdp nvidia-device-plugin --repo "
         "https://nvidia.github.io/k8s-device-plugin -n nvidia-device-plugin --create-namespace" +
         (more.empty() ? "" : " " + more);
}

}  // namespace berth::doctor
