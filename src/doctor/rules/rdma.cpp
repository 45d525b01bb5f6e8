// Rules RT13, RT15 and CTR23: adapters through which GPUs of several machines could exchange data
// directly, but do not.
#include <algorithm>
#include <array>
#include <set>

#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/gpus.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// Whether this is a virtual machine, according to firmware or to the CPU flags, which containers
/// also show.
bool is_virtual(Examination& look) {
  return look.facts.machine.is_virtual ||
         look.facts.platform.cpu.flags.value_or({}).contains("hypervisor");
}

/// Whether the Ethernet adapters are probably not meant for the GPUs, but are the normal network of
/// a cloud machine: one or two SR-IOV functions without RDMA. At least four adapters, with at least
/// one for every two GPUs, are meant for the GPUs.
bool is_usual_network(Examination& look, const std::vector<RdmaPort>& ports) {
  if (!is_virtual(look)) return false;
  std::set<std::string> adapters;
  for (const RdmaPort& one : ports)
    if (one.ethernet && one.state == "ACTIVE") adapters.insert(one.adapter);
  return adapters.size() < 4 || adapters.size() * 2 < seen_gpus(look).size();
}

/// The first active port, InfiniBand before Ethernet, because Ethernet may be for other traffic.
const RdmaPort* active_port(Examination& look) {
  const auto* ports = look.see(look.facts.rdma.ports);
  if (ports == nullptr) return nullptr;
  const bool in_cloud = is_usual_network(look, *ports);
  const RdmaPort* found = nullptr;
  for (const RdmaPort& one : *ports)
    if (one.state == "ACTIVE" && !(one.ethernet && in_cloud) &&
        (found == nullptr || (found->ethernet && !one.ethernet)))
      found = &one;
  return found;
}

std::string shown(const RdmaPort& port) {
  return fmt::format("{}: {}, {}", port.path, port.state,
                     port.ethernet ? "Ethernet" : "InfiniBand");
}

bool asks_for_rdma(Examination& look) {
  return spans_machines(look) || !variable_or_empty(look, "NCCL_IB_HCA").empty();
}

bool is_switched_off(Examination& look) {
  return is_on(variable_or_empty(look, "NCCL_IB_DISABLE"));
}

/// Whether adapters may access GPU memory through DMA-BUF, which needs kernel 5.12 and NVIDIA's
/// open module. Also true if the kernel's version or the kind of module is unknown.
bool gives_dma_buf(Examination& look) {
  const bool* open = look.see(look.facts.nvidia.open_module);
  const std::string* kernel = look.see(look.facts.machine.kernel);
  return open == nullptr || kernel == nullptr || (*open && !is_older(*kernel, "5.12"));
}

bool has_data_centre_gpu(Examination& look) {
  constexpr std::uint32_t kWithoutDisplay = 0x0302;
  const auto gpus = nvidia_gpus(look);
  return std::any_of(gpus.begin(), gpus.end(), [](const PciFunction* one) {
    return one->class_code >> 8 == kWithoutDisplay;
  });
}

void no_peer_memory(Examination& look) {
  const RdmaPort* port = active_port(look);
  // The module nvidia-peermem supports only NVIDIA's own adapters.
  if (port == nullptr || !port->adapter.starts_with("mlx") || is_switched_off(look) ||
      !driver_runs(look) || !has_data_centre_gpu(look))
    return;
  if (port->ethernet && !asks_for_rdma(look)) return;
  if (!is_not_loaded(look, "nvidia_peermem") || !is_not_loaded(look, "nv_peer_mem") ||
      gives_dma_buf(look))
    return;
  Finding& finding =
      look.found(text("network adapters cannot access the GPUs' memory: transfers to other "
                      "machines are copied through host memory"));
  if (!spans_machines(look)) finding.severity = Severity::kInfo;
  finding.evidence = {shown(*port), text("/proc/modules: nvidia, but no nvidia_peermem"),
                      text("without nvidia_peermem, GPUDirect RDMA needs NVIDIA's open kernel "
                           "module on Linux 5.12 or later, which is not in use here")};
  const auto& log = look.facts.machine.kernel_log;
  const std::string line = log ? newest_line(*log, {"nvidia_peermem", "Unknown symbol"}) : "";
  if (!line.empty()) {
    finding.evidence.push_back(quoted_line(line));
    finding.fix.push_back(
        {"sudo dkms remove nvidia/$(modinfo -F version nvidia) -k $(uname -r) && sudo dkms "
         "autoinstall",
         text("the network drivers were installed after the GPU "
              "driver: rebuild nvidia_peermem against them")});
  }
  finding.evidence.emplace_back("https://github.com/NVIDIA/nccl/issues/1343");
  finding.fix.push_back(
      {"sudo modprobe nvidia_peermem && echo nvidia_peermem | sudo tee "
       "/etc/modules-load.d/nvidia-peermem.conf",
       text("or install NVIDIA's open kernel module, which does not need nvidia_peermem")});
}

/// Reports Amazon's EFA adapters without the plugin that NCCL needs for them.
void efa_without_plugin(Examination& look) {
  const auto* functions = look.see(look.facts.machine.pci);
  if (functions == nullptr || !spans_machines(look) || seen_gpus(look).empty()) return;
  const auto efa = std::find_if(functions->begin(), functions->end(), [](const PciFunction& one) {
    return one.vendor == 0x1d0f && one.device >> 4 == 0xefa;
  });
  if (efa == functions->end()) return;
  const std::string chosen = variable_or_empty(look, "NCCL_NET_PLUGIN");
  const auto* found = look.see_whole(look.facts.rdma.nccl_plugin);
  if (found == nullptr || !found->empty() || chosen.starts_with('/')) return;
  Finding& finding = look.found(text(
      "NCCL has no plugin for this machine's EFA adapters: it uses plain TCP to other machines"));
  finding.evidence = {
      fmt::format("/sys/bus/pci/devices/{}: {:04x}:{:04x}", efa->address, efa->vendor, efa->device),
      text("not found in LD_LIBRARY_PATH or in the system's folders: {}", "libnccl-net*.so"),
      "https://github.com/NVIDIA-NeMo/RL/issues/1973"};
  const std::string* folder = look.see(look.facts.rdma.efa_plugin);
  if (folder != nullptr) {
    finding.fix.push_back(
        {fmt::format("export LD_LIBRARY_PATH={}:/opt/amazon/efa/lib:$LD_LIBRARY_PATH", *folder),
         text("the plugin is in this folder, but the loader does not search it")});
    return;
  }
  finding.fix.push_back(
      {"curl -fsSLO https://efa-installer.amazonaws.com/aws-efa-installer-latest.tar.gz && tar xzf "
       "aws-efa-installer-latest.tar.gz && cd aws-efa-installer && sudo ./efa_installer.sh -y",
       text("installs the plugin in /opt/amazon/ofi-nccl; container images also need the plugin: "
            "in an image, add --skip-kmod")});
}

void no_verbs_in_container(Examination& look) {
  const RdmaPort* port = active_port(look);
  const std::string kind = container_kind(look);
  // Other kinds of containers see the host's nodes, or get them in other ways, so they are not
  // checked.
  if (port == nullptr ||
      (kind != "docker" && kind != "podman" && kind != "kubernetes" && kind != "container"))
    return;
  const auto* nodes = look.see(look.facts.rdma.nodes);
  const bool has =
      nodes != nullptr && std::any_of(nodes->begin(), nodes->end(),
                                      [](const auto& one) { return one.starts_with("uverbs"); });
  if (has || look.facts.rdma.nodes.is_unreadable() || is_switched_off(look)) return;
  const auto gpus = seen_gpus(look).size();
  const bool asked = asks_for_rdma(look);
  if (gpus == 0 || (port->ethernet && !asked)) return;
  Finding& finding =
      look.found(text("the container sees the machine's RDMA adapters but may not use them: NCCL "
                      "uses plain TCP to other machines"));
  if (!asked) finding.severity = Severity::kInfo;
  finding.evidence = {shown(*port), fmt::format("/dev/infiniband/uverbs0: {}", tr("missing")),
                      "https://github.com/NVIDIA/nccl/issues/451"};
  if (kind == "kubernetes")
    finding.fix.push_back(
        {"kubectl describe node | grep rdma/",
         text("shows the resource name of the adapters; request one adapter in resources.limits")});
  else
    finding.fix.push_back({(kind == "podman" ? "podman" : "docker") +
                               std::string(" run --device /dev/infiniband --cap-add IPC_LOCK "
                                           "--ulimit memlock=-1 --network host IMAGE"),
                           text("add these options to the container's other options")});
}

constexpr auto kRdmaRules = std::to_array<Rule>({
    {"CTR23", Layer::kContainer, Severity::kWarning, true,
     msgid("a container that may not use its RDMA adapters"), "", no_verbs_in_container},
    {"RT13", Layer::kRuntime, Severity::kWarning, true,
     msgid("network adapters that cannot access the GPUs' memory"), "", no_peer_memory},
    {"RT15", Layer::kRuntime, Severity::kWarning, true, msgid("EFA adapters without NCCL's plugin"),
     "", efa_without_plugin},
});

}  // namespace

std::span<const Rule> rdma_rules() {
  return kRdmaRules;
}

}  // namespace berth::doctor
