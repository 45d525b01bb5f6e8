// Rules CTR25, CTR27: services that assign the GPUs of a node to jobs and pods: Slurm's daemon and
// the kubelet's device plugin.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "doctor/rules/container_nodes.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

bool is_machine(Examination& look) {
  return look.missing(look.facts.container.kind) && !in_wsl(look) && driver_runs(look);
}

/// Whether these settings are a copy that slurmctld sent when slurmd started ("configless").
bool is_controllers(const SlurmSettings& slurm) {
  return slurm.path.starts_with("/run/slurm/");
}

/// A fix that changes Slurm's settings. `change` is a command with {} for the path of gres.conf. If
/// the file on this node is a copy, the original on the controller must be changed.
Fix change_of_settings(const SlurmSettings& slurm, const char* change, const std::string& says) {
  if (!is_controllers(slurm))
    return {fmt::format(fmt::runtime(change), slurm.path) + " && sudo systemctl restart slurmd",
            says};
  return {"sudo scontrol reconfigure",
          text("run this on the controller, after you change its gres.conf (beside slurm.conf): "
               "slurmd fetches {} from there at every start",
               slurm.path) +
              "; " + says};
}

/// Reports device files in gres.conf that do not exist, because slurmd then exits.
void files_that_are_not_there(Examination& look, const SlurmSettings& slurm) {
  const auto* nodes = look.see_whole(look.facts.nodes.nvidia);
  if (nodes == nullptr) return;
  std::vector<std::string> missing;
  for (const std::string& file : slurm.files)
    if (std::none_of(nodes->begin(), nodes->end(),
                     [&](const GpuNode& one) { return one.path == file; }))
      missing.push_back(file);
  if (missing.empty()) return;
  const auto here = look.facts.nodes.nvidia_gpus().value_or({}).size();
  Finding& finding =
      look.found(text("{} configures {} GPUs for Slurm, but there are {}: slurmd does not start, "
                      "or the node is drained",
                      slurm.path, slurm.files.size(), here));
  finding.evidence = {fmt::format("{}: {}", fmt::join(missing, " "), tr("missing")),
                      "https://github.com/awslabs/awsome-distributed-ai/issues/195"};
  finding.fix.push_back(change_of_settings(
      slurm, "sudoedit {}",
      text("write File=/dev/nvidia[…] with the numbers from ls /dev/nvidia[0-9]*, and Gres=gpu:{} "
           "for this node in slurm.conf; if GPUs are missing, find out why",
           here)));
  finding.fix.push_back({"sudo scontrol update nodename=$(hostname -s) state=resume", ""});
}

void without_nvml_plugin(Examination& look, const SlurmSettings& slurm) {
  const std::string* folder = look.see(slurm.plugin_folder);
  if (!slurm.by_nvml || folder == nullptr || !look.missing(slurm.nvml_plugin)) return;
  Finding& finding = look.found(text(
      "{} makes Slurm detect GPUs with NVML, but this Slurm was built without NVML", slurm.path));
  finding.evidence = {"AutoDetect=nvml", fmt::format("{}/gpu_nvml.so: {}", *folder, tr("missing")),
                      "https://github.com/SlinkyProject/containers/issues/14"};
  finding.fix.push_back(
      change_of_settings(slurm, "sudo sed -i 's/AutoDetect=nvml/AutoDetect=nvidia/I' {}",
                         text("since Slurm 24.11, AutoDetect=nvidia finds GPUs without NVML; older "
                              "releases need File= lines, or a Slurm that was built with nvml.h")));
}

/// Checks Slurm's settings on machines, and in containers that run slurmd.
void slurm_gpus(Examination& look) {
  if (nvidia_count(look).value_or(0) == 0) return;
  const SlurmSettings* slurm = look.see(look.facts.container.slurm);
  if (slurm == nullptr) return;
  files_that_are_not_there(look, *slurm);
  without_nvml_plugin(look, *slurm);
}

/// Reports a kubelet without a registered device plugin: the node then has no resource
/// nvidia.com/gpu.
void no_device_plugin(Examination& look) {
  if (!is_machine(look) || nvidia_count(look).value_or(0) == 0) return;
  const auto* sockets = look.see_whole(look.facts.container.plugin_sockets);
  if (sockets == nullptr ||
      std::find(sockets->begin(), sockets->end(), "kubelet.sock") == sockets->end())
    return;
  // A driver for dynamic resource allocation (DRA) can provide the GPUs without a device plugin.
  const auto* plugins = look.see(look.facts.container.kubelet_plugins);
  if (look.facts.container.kubelet_plugins.is_unreadable() || has_gpu_plugin(*sockets) ||
      (plugins != nullptr &&
       std::any_of(plugins->begin(), plugins->end(),
                   [](const std::string& name) { return contains(name, "gpu"); })))
    return;
  Finding& finding =
      look.found(text("no device plugin has registered with this node's kubelet: the cluster knows "
                      "of no GPU here (Insufficient nvidia.com/gpu)"));
  finding.evidence = {
      fmt::format("/var/lib/kubelet/device-plugins/kubelet.sock; nvidia-*.sock: {}", tr("missing")),
      "https://github.com/NVIDIA/k8s-device-plugin/issues/36"};
  finding.fix.push_back(
      {"kubectl get pods -A -o wide | grep -i nvidia-device-plugin",
       text("one of these pods must run on this node; if it fails, its log shows why")});
  finding.fix.push_back(
      {install_device_plugin(),
       text("if there is no such pod, install it like this, or use NVIDIA's GPU operator")});
}

constexpr auto kNodeServicesRules = std::to_array<Rule>({
    {"CTR25", Layer::kContainer, Severity::kWarning, true,
     msgid("a Slurm configuration that does not match the GPUs"), "", slurm_gpus},
    {"CTR27", Layer::kContainer, Severity::kInfo, true,
     msgid("a Kubernetes node without a device plugin"), "", no_device_plugin},
});

}  // namespace

std::span<const Rule> node_service_rules() {
  return kNodeServicesRules;
}

}  // namespace berth::doctor
