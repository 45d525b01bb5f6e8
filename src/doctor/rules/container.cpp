// Rules CTR for a container with NVIDIA GPUs, checked from inside the container: which files and
// devices it has, and which accesses are denied. Containers do not hide the PCI bus and the
// kernel's modules, so the host's GPUs are visible.
#include <algorithm>
#include <array>

#include "base/file.hpp"
#include "base/text.hpp"
#include "doctor/knowledge/version.hpp"
#include "doctor/rules/on_system.hpp"
#include "doctor/rules/queries.hpp"
#include "doctor/rules/which_gpus.hpp"

namespace berth::doctor {
namespace {

/// Whether this is an application container such as Docker's, and not a pod of Kubernetes or a
/// system container.
bool is_plain(const std::string& kind) {
  return kind == "docker" || kind == "podman" || kind == "container";
}

Fix start_with_gpus(const std::string& kind) {
  if (kind == "podman")
    return {"podman run --device nvidia.com/gpu=all IMAGE",
            text("restart the container like this")};
  return {"docker run --gpus all IMAGE", text("restart the container like this")};
}

/// Whether the container has no GPU device nodes, neither NVIDIA's nor that of WSL. On a Jetson,
/// the nodes have other names.
bool has_no_nodes(Examination& look) {
  // The kernel's name shows whether this is a Jetson. If it is unknown, it is also unknown which
  // nodes to look for.
  if (!look.facts.machine.is_jetson && look.see(look.facts.machine.kernel) == nullptr) return false;
  if (look.facts.machine.is_jetson) {
    const auto* tegra = look.see(look.facts.nodes.tegra);
    return tegra != nullptr && tegra->empty();
  }
  const auto* nodes = look.see(look.facts.nodes.nvidia);
  return nodes != nullptr && nodes->empty() && look.missing(look.facts.nodes.dxg);
}

/// Whether only the driver's control nodes exist: the user passed no node of a GPU, or requested no
/// GPU from the runtime.
bool has_control_nodes_only(Examination& look) {
  const auto* nodes = look.see_whole(look.facts.nodes.nvidia);
  const auto gpus = look.facts.nodes.nvidia_gpus();
  if (nodes == nullptr || nodes->empty() || !gpus || !gpus->empty()) return false;
  const auto on_bus = gpus_on_bus(look, kVendorNvidia);
  return std::any_of(on_bus.begin(), on_bus.end(),
                     [](const PciFunction& one) { return one.driver.value_or("") == "nvidia"; });
}

bool masks_gpus(const Fact<std::string>& visible) {
  return visible && (*visible == "void" || *visible == "none" || visible->empty());
}

/// The paths of all NVIDIA nodes, which are only control nodes here: "/dev/nvidiactl,
/// /dev/nvidia-uvm".
std::string control_nodes(Examination& look) {
  std::string names;
  for (const GpuNode& one : look.facts.nodes.nvidia.value_or({}))
    names += (names.empty() ? "" : ", ") + one.path;
  return names;
}

void no_gpu_passed(Examination& look) {
  const std::string kind = container_kind(look);
  if (!is_plain(kind)) return;
  const bool partly = has_control_nodes_only(look);
  if ((!partly && !has_no_nodes(look)) || !machine_has_nvidia(look)) return;
  if (masks_gpus(look.facts.process.variable("NVIDIA_VISIBLE_DEVICES"))) return;  // CTR06
  if (partly) {
    Finding& finding =
        look.found(text("the container has the driver's device nodes, but not those of the GPUs "
                        "(/dev/nvidia0, …)"));
    finding.evidence.push_back(
        fmt::format("{}; {}", look.facts.container.marker, control_nodes(look)));
    finding.fix.push_back(start_with_gpus(kind));
    return;
  }
  Finding& finding = look.found(text("the container was started without the machine's GPU"));
  const std::string wanted = gpu_variable_of_image(look);
  if (wanted.empty()) finding.severity = Severity::kWarning;
  finding.evidence.push_back(fmt::format(
      "{}; {}: {}", look.facts.container.marker,
      look.facts.machine.is_jetson ? "/dev/nvhost-gpu" : "/dev/nvidiactl", tr("missing")));
  if (look.facts.machine.is_jetson) {
    finding.fix.push_back(
        {"docker run --runtime nvidia IMAGE", text("restart the container like this")});
    return;
  }
  finding.evidence.push_back(
      look.facts.files.kernel_module
          ? fmt::format("kernel module nvidia: {}", *look.facts.files.kernel_module)
          : text("the machine's bus shows an NVIDIA GPU"));
  if (!wanted.empty()) finding.evidence.push_back(wanted);
  finding.fix.push_back(start_with_gpus(kind));
}

/// Whether a cgroup v1 device list denies access to NVIDIA's nodes (195:*): no row allows reading
/// and writing.
bool list_denies(const std::string& list) {
  for (const std::string_view row : split(list, '\n')) {
    if (row.starts_with("a ")) return false;
    if (row.starts_with("c 195:") && row.find("rw") != std::string_view::npos) return false;
    if (row.starts_with("c *:*") && row.find("rw") != std::string_view::npos) return false;
  }
  return true;
}

/// Checks on the host whether the container runtime is configured to write no device filters. This
/// setting is meant for engines without the permission to write them, such as rootless ones.
void filter_not_written(Examination& look) {
  const auto& engines = look.facts.container.engines;
  const auto* socket = look.see(engines.docker_socket);
  const auto* config = look.see(engines.toolkit_config);
  if (socket == nullptr || config == nullptr || !toml_sets(*config, "no-cgroups", "true")) return;
  Finding& finding =
      look.found(text("Docker containers see the GPU's device nodes but may not open them: "
                      "NVIDIA's runtime is configured not to change the device filter"));
  finding.severity = Severity::kError;
  finding.evidence.push_back(
      fmt::format("/etc/nvidia-container-runtime/config.toml: no-cgroups = true; {}", *socket));
  finding.fix.push_back(
      {"sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups=false --in-place\n"
       "sudo systemctl restart docker",
       text("rootless containers on this machine that do not use CDI then lose their GPUs")});
}

/// Reports a scheduler's job that sees the device nodes, but whose cgroup allows no GPU.
void job_without_gpu(Examination& look) {
  const auto gpus = look.facts.nodes.nvidia_gpus();
  const auto* nodes = look.see(gpus);
  const auto is_filtered = [](const GpuNode& one) { return one.node.open_error == EPERM; };
  if (nodes == nullptr || nodes->empty() || !std::all_of(nodes->begin(), nodes->end(), is_filtered))
    return;
  const std::string job = shown_variable(look, "SLURM_JOB_ID");
  Finding& finding = look.found(
      job.empty() ? text("a device filter denies this program access to all GPUs of the machine")
                  : text("this Slurm job was given no GPU of the machine"));
  finding.evidence.push_back(
      fmt::format("open({}): EPERM, mode {:04o}", nodes->front().path, nodes->front().node.mode));
  if (!job.empty()) {
    finding.evidence.push_back(job);
    finding.fix.push_back(
        {"sbatch --gres=gpu:1 …",
         text("srun and salloc have the same option: a job only gets a GPU if it requests one")});
    return;
  }
  finding.fix.push_back(
      {"cat /proc/self/cgroup", text("shows where the device filter comes from: a scheduler's job, "
                                     "a unit with DeviceAllow, a container")});
}

/// Reports a device filter that denies WSL's only GPU node. NVIDIA's runtime must add this node to
/// the filter.
void wsl_node_filtered(Examination& look) {
  const GpuNode* node = look.see(look.facts.nodes.dxg);
  if (node == nullptr || node->node.open_error != EPERM) return;
  Finding& finding = look.found(text("the container's device filter denies /dev/dxg"));
  finding.evidence.push_back(fmt::format("open(/dev/dxg): EPERM, mode {:04o}", node->node.mode));
  if (look.facts.driver.nvml_init) finding.evidence.push_back(nvml_says(look));
  finding.fix.push_back(
      {"sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups=false --in-place\n"
       "sudo systemctl restart docker",
       text("run this in the WSL distribution of Docker, so that NVIDIA's runtime writes the "
            "device filter; then restart the container")});
  finding.fix.push_back(
      {"docker run --device /dev/dxg --gpus all IMAGE",
       text("for this container only: Docker then allows the device node itself")});
}

void device_filter_lost(Examination& look) {
  if (look.missing(look.facts.container.kind)) {
    job_without_gpu(look);
    return filter_not_written(look);
  }
  if (!is_plain(container_kind(look)) && container_kind(look) != "kubernetes") return;
  const auto control_node = look.facts.nodes.nvidia_node("/dev/nvidiactl");
  const auto* control = look.see(control_node);
  if (control == nullptr) return wsl_node_filtered(look);
  const auto* list = look.see(look.facts.container.devices_list);
  const bool listed = list != nullptr && !trim(*list).empty() && list_denies(*list);
  if (control->node.open_error != EPERM && !listed) return;
  Finding& finding =
      look.found(text("the container's device filter no longer allows /dev/nvidiactl"));
  finding.evidence.push_back(
      control->node.open_error == EPERM
          ? fmt::format("open(/dev/nvidiactl): EPERM, mode {:04o}", control->node.mode)
          : fmt::format("/sys/fs/cgroup/devices/devices.list: {}", trim(*list)));
  if (look.facts.driver.nvml_init) finding.evidence.push_back(nvml_says(look));
  finding.fix.push_back({"", text("restart the container: this restores its device rules until the "
                                  "next systemctl daemon-reload on the machine")});
  finding.fix.push_back(
      {"sudo nvidia-ctk system create-dev-char-symlinks --create-all",
       text("run this on the host: the device rules then survive a daemon-reload")});
  finding.fix.push_back({"grep no-cgroups /etc/nvidia-container-runtime/config.toml",
                         text("run this on the host: 'no-cgroups = true' is only for rootless "
                              "engines; containers of other engines then lose the GPU")});
}

void visible_void(Examination& look) {
  const std::string kind = container_kind(look);
  if (!is_plain(kind)) return;
  const bool partly = has_control_nodes_only(look);
  if ((!partly && !has_no_nodes(look)) || !machine_has_nvidia(look)) return;
  const auto value = look.facts.process.variable("NVIDIA_VISIBLE_DEVICES");
  if (look.see(value) == nullptr || !masks_gpus(value)) return;
  Finding& finding = look.found(
      text("NVIDIA_VISIBLE_DEVICES is '{}', which requests no GPU from the runtime", *value));
  finding.evidence.push_back(fmt::format("NVIDIA_VISIBLE_DEVICES={}; {}: {}", *value,
                                         partly ? "/dev/nvidia0" : "/dev/nvidiactl",
                                         tr("missing")));
  finding.fix.push_back(kind == "podman"
                            ? start_with_gpus(kind)
                            : Fix{"docker run --gpus all -e NVIDIA_VISIBLE_DEVICES=all IMAGE",
                                  text("restart the container like this")});
}

void capabilities(Examination& look) {
  if (container_kind(look).empty()) return;
  const auto* nvml = look.see(look.facts.files.nvml);
  const auto* cuda = look.see_whole(look.facts.files.cuda);
  if (has_no_nodes(look) || nvml == nullptr || cuda == nullptr) return;
  if (nvml->empty() || !cuda->empty()) return;
  const std::string given = variable_or_empty(look, "NVIDIA_DRIVER_CAPABILITIES");
  if (contains(given, "compute") || contains(given, "all")) return;
  Finding& finding =
      look.found(text("the container got the driver's tools, but not its CUDA library"));
  finding.evidence.push_back(fmt::format("NVIDIA_DRIVER_CAPABILITIES={}", given));
  finding.evidence.push_back(
      fmt::format("{}; libcuda.so.1: {}", nvml->front().path, tr("missing")));
  finding.fix.push_back(
      {"docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility IMAGE",
       text("restart the container like this")});
}

void driver_in_image(Examination& look) {
  // Skip system containers: they have their own driver installation, and DRV05 reports a mismatch
  // there.
  const std::string kind = container_kind(look);
  if (kind.empty() || kind == "lxc") return;
  const auto* cuda = look.see(look.facts.files.cuda);
  const auto* module = look.see(look.facts.files.kernel_module);
  if (cuda == nullptr || module == nullptr || cuda->empty()) return;
  // An image with nvidia-smi may contain the library of NVML without that of CUDA.
  const auto is_own = [&](const LibraryFile& one) {
    return !one.version().empty() && one.version() != *module && !contains(one.path, "/compat/");
  };
  const auto* nvml = look.see(look.facts.files.nvml);
  const bool by_nvml = !is_own(cuda->front()) && nvml != nullptr && !nvml->empty();
  const LibraryFile& wins = by_nvml ? nvml->front() : cuda->front();
  if (!is_own(wins)) return;
  // On GPUs that support compat libraries, the container toolkit prefers the image's compat library
  // to the driver's library on purpose.
  const auto& compat = look.facts.files.compat;
  if (compat.is_unreadable()) {
    look.see(compat);
    return;
  }
  if (compat && compat->version() == wins.version() && is_older(*module, wins.version()) &&
      look.facts.driver.cuda_init.value_or(0) == 0)
    return;
  // On a Jetson, the file name of the library has no driver version: libcuda.so.1.1.
  if (look.facts.machine.is_jetson || is_older(wins.version(), "100")) return;
  if (look.missing(look.facts.nodes.nvidia_node("/dev/nvidiactl"))) return;
  Finding& finding =
      look.found(text("the image contains its own driver library, {}, but the machine's is {}",
                      wins.version(), *module));
  finding.evidence.push_back(fmt::format("{} → {}", wins.path, wins.target));
  finding.evidence.push_back(fmt::format("kernel module nvidia: {}", *module));
  Fix purge = on_system(
      look, "driver_purge",
      text("add this to the image's Dockerfile; the machine provides the driver libraries"));
  if (purge.command.starts_with("sudo ")) purge.command.erase(0, 5);
  finding.fix.push_back(std::move(purge));
}

/// The product name of a consumer GPU, on which CUDA's forward compatibility does not work; "" if
/// there is none.
std::string consumer_gpu(Examination& look) {
  const auto* gpus = look.see(look.facts.driver.gpus);
  if (gpus == nullptr) return "";
  for (const GpuAnswer& gpu : *gpus)
    if (gpu.name && (contains(*gpu.name, "GeForce") || contains(*gpu.name, "TITAN")))
      return *gpu.name;
  return "";
}

void compat_misused(Examination& look) {
  const auto* cuda = look.see(look.facts.files.cuda);
  const auto* compat = look.see(look.facts.files.compat);
  if (cuda == nullptr) return;
  const LibraryFile* used = nullptr;
  if (!cuda->empty() && contains(cuda->front().path + cuda->front().target, "/compat/"))
    used = &cuda->front();
  const Fact<int>& init = look.facts.driver.cuda_init;
  const bool refused = init && *init == 804;
  if (used == nullptr && refused) used = compat;
  if (used == nullptr) return;
  const std::string consumer = consumer_gpu(look);
  const Fact<std::string>& module = look.facts.files.kernel_module;
  const bool older = module && !used->version().empty() && is_older(used->version(), *module);
  if (!refused && consumer.empty() && !older) return;
  Finding& finding = look.found(
      older ? text("CUDA's compat library {} is in use, which is older than the driver {}",
                   used->version(), *module)
            : text("CUDA's compat library is in use, and it does not work with this GPU"));
  finding.evidence.push_back(fmt::format("{} → {}", used->path, used->target));
  if (refused) finding.evidence.emplace_back("cuInit: 804");
  if (!consumer.empty()) finding.evidence.push_back(consumer);
  if (module) finding.evidence.push_back(fmt::format("kernel module nvidia: {}", *module));
  const bool by_variable = contains(variable_or_empty(look, "LD_LIBRARY_PATH"), "/compat");
  finding.fix.push_back(
      {by_variable ? "export LD_LIBRARY_PATH=$(echo \"$LD_LIBRARY_PATH\" | tr ':' '\\n' | grep "
                     "-v /compat | paste -sd:)"
                   : "grep -l /compat /etc/ld.so.conf.d/*.conf | xargs -r rm; ldconfig",
       text("removes the compat folder from the library search path")});
  if (!older)
    finding.fix.push_back({"", text("update the machine's driver, or use an image with an older "
                                    "CUDA: compat libraries only work on data centre GPUs")});
}

void pod_without_claim(Examination& look) {
  if (container_kind(look) != "kubernetes") return;
  const auto value = look.facts.process.variable("NVIDIA_VISIBLE_DEVICES");
  const bool takes_all = value && *value == "all";
  const bool none = has_no_nodes(look);
  if (none ? !machine_has_nvidia(look) : !takes_all) return;
  const std::string wanted = gpu_variable_of_image(look);
  // A uuid in this variable shows that Kubernetes assigned a GPU. A user who starts a container by
  // hand usually does not know the uuids.
  const bool given = none && value && (value->starts_with("GPU-") || value->starts_with("MIG-"));
  Finding& finding =
      look.found(given  ? text("the pod was assigned a GPU, but its runtime does not provide any")
                 : none ? text("the pod was given no GPU, although its machine has GPUs")
                        : text("the pod got its GPUs through NVIDIA_VISIBLE_DEVICES, without "
                               "requesting them from Kubernetes"));
  const Fact<int>& init = look.facts.driver.nvml_init;
  const bool works = !none && !(init && *init != 0);
  if (wanted.empty()) finding.severity = Severity::kWarning;
  // The GPUs work: the cluster provides them in another way, and "all" is only the image's default.
  if (works) finding.severity = Severity::kInfo;
  finding.evidence.push_back(look.facts.container.marker);
  if (none)
    finding.evidence.push_back(fmt::format("/dev/nvidiactl: {}", tr("missing")));
  else if (look.facts.driver.nvml_init)
    finding.evidence.push_back(nvml_says(look));
  if (!wanted.empty()) finding.evidence.push_back(wanted);
  if (!given)
    finding.fix.push_back({"resources:\n  limits:\n    nvidia.com/gpu: 1",
                           text("add this to the container's section of the pod's manifest")});
  finding.fix.push_back(
      {"runtimeClassName: nvidia", text("add this to the pod's spec if the default runtime of the "
                                        "host's containerd is not NVIDIA's")});
  if (given)
    finding.fix.push_back(
        {"sudo nvidia-ctk runtime configure --runtime=containerd --set-as-default && sudo "
         "systemctl "
         "restart containerd",
         text("run this on the host, except with k3s, RKE2 or MicroK8s, which include containerd: "
              "all pods then use NVIDIA's runtime by default")});
}

/// Whether GPUs communicate over the network: between machines, or on one machine if variables
/// disable NCCL's faster transports.
bool exchanges_by_network(Examination& look) {
  if (spans_machines(look)) return true;
  return is_on(variable_or_empty(look, "NCCL_P2P_DISABLE")) &&
         is_on(variable_or_empty(look, "NCCL_SHM_DISABLE"));
}

/// Whether the user probably needs RDMA. On many machines, the adapters are only used for Ethernet.
bool wants_rdma(Examination& look) {
  if (is_on(variable_or_empty(look, "NCCL_IB_DISABLE"))) return false;
  if (!variable_or_empty(look, "NCCL_IB_HCA").empty() || exchanges_by_network(look)) return true;
  const auto* interfaces = look.see(look.facts.platform.interfaces);
  return interfaces != nullptr &&
         std::any_of(interfaces->begin(), interfaces->end(),
                     [](const std::string& one) { return one.starts_with("ib"); });
}

void ulimits(Examination& look) {
  const bool inside = !container_kind(look).empty();
  const auto* adapters = look.see(look.facts.container.infiniband);
  if (adapters == nullptr || adapters->empty()) return;
  const auto* limit = look.see(look.facts.process.memlock_limit_bytes);
  if (limit == nullptr || *limit >= std::uint64_t{1} << 30) return;
  if (!inside && (nvidia_count(look).value_or(0) == 0 || !wants_rdma(look))) return;
  Finding& finding = look.found(
      inside ? text("the container's limit for locked memory is {} KiB, too little for RDMA",
                    *limit / 1024)
             : text("this shell's limit for locked memory is {} KiB, too little for RDMA",
                    *limit / 1024));
  // On one machine, the GPUs use faster transports than RDMA.
  if (!inside && !exchanges_by_network(look)) finding.severity = Severity::kInfo;
  finding.evidence.push_back(
      fmt::format("RLIMIT_MEMLOCK: {}; /sys/class/infiniband/{}", *limit, adapters->front()));
  if (inside) {
    finding.fix.push_back({"docker run --ulimit memlock=-1 --ulimit stack=67108864 IMAGE",
                           text("restart the container like this")});
    return;
  }
  finding.fix.push_back(
      {"printf '* soft memlock unlimited\n* hard memlock unlimited\n' | sudo tee "
       "/etc/security/limits.d/rdma.conf",
       text("takes effect at the next login")});
  finding.fix.push_back({"sudo systemctl edit slurmd",
                         text("for a scheduler's jobs, because its service ignores limits.d: add "
                              "LimitMEMLOCK=infinity to [Service], then restart the service")});
}

/// Whether programs in this container need much shared memory: DataLoader workers, ranks on several
/// GPUs, servers with worker processes. Also true if more than half of the shared memory is in use.
bool wants_shared_memory(Examination& look, std::uint64_t size) {
  if (look.facts.process.shm_used_bytes.value_or(0) > size / 2) return true;
  if (nvidia_count(look).value_or(0) > 1 || gpus_on_bus(look, kVendorAmd).size() > 1) return true;
  const auto* all = look.see(look.facts.python.distributions);
  if (all == nullptr)
    return look.facts.python.interpreter && look.facts.python.distributions.is_unreadable();
  constexpr auto kUsers = std::to_array<std::string_view>(
      {"torch", "ray", "dask", "mxnet", "paddlepaddle-gpu", "vllm", "sglang"});
  return std::any_of(all->begin(), all->end(), [&](const Distribution& one) {
    return std::find(kUsers.begin(), kUsers.end(), one.name) != kUsers.end();
  });
}

void shm_small(Examination& look) {
  const std::string kind = container_kind(look);
  if (!is_plain(kind) && kind != "kubernetes") return;
  const auto* size = look.see(look.facts.process.shm_total_bytes);
  if (size == nullptr || *size == 0 || *size >= std::uint64_t{1} << 30) return;
  Finding& finding = look.found(
      text("/dev/shm has {} MiB: DataLoader workers and NCCL soon fill it", *size >> 20));
  if (!wants_shared_memory(look, *size)) finding.severity = Severity::kInfo;
  finding.evidence.push_back(fmt::format("statvfs(/dev/shm): {} bytes", *size));
  if (kind == "kubernetes")
    finding.fix.push_back({"volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]",
                           text("add this volume to the pod and mount it at /dev/shm; it counts "
                                "towards the pod's memory")});
  else
    finding.fix.push_back({kind + " run --shm-size=8g IMAGE",
                           text("restart the container like this, or with --ipc=host")});
}

constexpr auto kContainerRules = std::to_array<Rule>({
    {"CTR01", Layer::kContainer, Severity::kFatal, true, msgid("a container that was given no GPU"),
     "DRV11 DRV12 LIB* FW* ENV*", no_gpu_passed},
    {"CTR02", Layer::kContainer, Severity::kFatal, true, msgid("a device filter denying the GPU"),
     "WSL03 DRV11 DRV12 DRV13 LIB01 FW*", device_filter_lost},
    {"CTR06", Layer::kContainer, Severity::kFatal, false,
     msgid("NVIDIA_VISIBLE_DEVICES that requests no GPU"), "DRV11 DRV12 LIB* FW* ENV*",
     visible_void},
    {"CTR07", Layer::kContainer, Severity::kFatal, true,
     msgid("a container without the driver's CUDA library"), "LIB* FW*", capabilities},
    {"CTR13", Layer::kContainer, Severity::kFatal, true, msgid("a driver library in the image"),
     "DRV05 DRV17 LIB*", driver_in_image},
    {"CTR14", Layer::kContainer, Severity::kFatal, true,
     msgid("CUDA's compat library on a GPU that does not support it"), "CTR08 DRV05 DRV17 LIB*",
     compat_misused},
    {"CTR15", Layer::kContainer, Severity::kWarning, true, msgid("a small /dev/shm"), "RT06",
     shm_small},
    {"CTR16", Layer::kContainer, Severity::kWarning, true,
     msgid("too little lockable memory for RDMA"), "", ulimits},
    {"CTR17", Layer::kContainer, Severity::kFatal, true, msgid("a pod that was given no GPU"),
     "DRV11 DRV12 LIB* FW* ENV*", pod_without_claim},
});

}  // namespace

std::span<const Rule> container_rules() {
  return kContainerRules;
}

}  // namespace berth::doctor
