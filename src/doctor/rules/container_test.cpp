#include <doctest/doctest.h>

#include <cerrno>
#include <functional>

#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"

using namespace berth::doctor;
using tests::card;

namespace container_test {
namespace {

GpuNode nvidia_node(const std::string& path, int open_error = 0) {
  Node node;
  node.type = NodeType::kCharacter;
  node.mode = 0666;
  node.open_error = open_error;
  return {path, node, 0};
}

std::vector<GpuNode> nvidia_nodes(int open_error = 0) {
  return {nvidia_node("/dev/nvidiactl", open_error), nvidia_node("/dev/nvidia0", open_error),
          nvidia_node("/dev/nvidia-uvm", open_error)};
}

/// A container of this kind with one GPU and without problems.
Facts healthy(const std::string& kind) {
  Facts facts;
  facts.machine.kernel = std::string("6.8.0-45-generic");
  facts.machine.modules = std::vector<std::string>{"nvidia", "nvidia_uvm"};
  facts.machine.pci = std::vector{card("0000:01:00.0", 0x10de, 0x2684, "nvidia")};
  facts.files.kernel_module = std::string("550.54.15");
  facts.files.cuda = std::vector<LibraryFile>{{"/l/libcuda.so.1", "/l/libcuda.so.550.54.15"}};
  facts.files.nvml =
      std::vector<LibraryFile>{{"/l/libnvidia-ml.so.1", "/l/libnvidia-ml.so.550.54.15"}};
  facts.nodes.nvidia = nvidia_nodes();
  facts.nodes.render = std::vector<GpuNode>{};
  facts.nodes.char_links = std::vector<std::string>{"195:0"};
  if (!kind.empty()) facts.container.kind = kind;
  facts.container.marker = "/.dockerenv";
  facts.container.user_namespace = false;
  facts.container.engines.cdi = std::vector<CdiSpec>{};
  facts.process.identity = Identity{0, 0, {0}};
  facts.process.environment = Environment{{"NVIDIA_VISIBLE_DEVICES", "GPU-1"},
                                          {"NVIDIA_DRIVER_CAPABILITIES", "compute,utility"}};
  facts.process.cpus = std::vector<int>{0, 1, 2, 3};
  facts.process.shm_total_bytes = std::uint64_t{8} << 30;
  return facts;
}

std::vector<Rule> container_rules_all() {
  return tests::joined({container_rules(), container_system_rules(), container_host_rules()});
}

std::string first(const Facts& facts) {
  return tests::first_of(container_rules_all(), facts);
}

struct Mutation {
  const char* rule;
  const char* kind;
  std::function<void(Facts&)> change;
};

void set(Facts& facts, const std::string& name, const std::string& value) {
  Environment changed = *facts.process.environment;
  changed[name] = value;
  facts.process.environment = changed;
}

void without_nodes(Facts& facts) {
  facts.nodes.nvidia = std::vector<GpuNode>{};
}

void amd(Facts& facts) {
  facts.machine.pci = std::vector{card("0000:03:00.0", 0x1002, 0x73bf, "amdgpu")};
  facts.files.kernel_module = {};
  facts.machine.modules = std::vector<std::string>{"amdgpu"};
  facts.rocm.folder = std::string("/opt/rocm");
}

void with_docker(Facts& facts) {
  facts.container.engines.docker = std::string("/usr/bin/dockerd");
  facts.container.engines.toolkit = std::string("/usr/bin/nvidia-container-runtime-hook");
  facts.container.engines.cgroup_v2 = true;
}

void with_podman(Facts& facts, const char* version, const char* format) {
  facts.container.engines.podman = std::string("/usr/bin/podman");
  facts.container.engines.podman_version = std::string(version);
  facts.container.engines.cdi =
      std::vector<CdiSpec>{{"/etc/cdi/nvidia.yaml", "nvidia.com/gpu", {"0"}, {}, "", 0, format}};
}

std::vector<Mutation> of_machines() {
  return {
      {"CTR02", "",
       [](Facts& f) {
         f.container.engines.docker_socket = std::string("/run/docker.sock");
         f.container.engines.toolkit_config =
             std::string("[nvidia-container-cli]\nno-cgroups = true");
       }},
      {"CTR03", "",
       [](Facts& f) {
         with_docker(f);
         f.nodes.char_links = std::vector<std::string>{};
       }},
      {"CTR04", "",
       [](Facts& f) {
         with_docker(f);
         f.container.engines.toolkit = {};
       }},
      {"CTR05", "",
       [](Facts& f) {
         f.container.engines.docker = std::string("/usr/bin/dockerd");
         f.container.engines.docker_desktop = std::string("/opt/docker-desktop");
         f.container.engines.uses_docker_desktop = std::string("/home/ada/.docker/config.json");
       }},
      {"CTR05", "",
       [](Facts& f) { f.container.engines.docker_snap = std::string("/snap/docker"); }},
      {"CTR09", "",
       [](Facts& f) {
         f.container.engines.cdi = std::vector<CdiSpec>{
             {"/etc/cdi/nvidia.yaml", "nvidia.com/gpu", {"0"}, {"/usr/lib/libold.so"}, "", 0, ""}};
       }},
      {"CTR10", "",
       [](Facts& f) {
         f.container.engines.podman = std::string("/usr/bin/podman");
         f.container.engines.podman_version = std::string("3.0.1+dfsg1-3");
         f.container.engines.toolkit = std::string("/usr/bin/nvidia-container-toolkit");
       }},
      {"CTR10", "", [](Facts& f) { with_podman(f, "4.9.3+ds1-1ubuntu0.2", "0.7.0"); }},
      {"CTR10", "", [](Facts& f) { with_podman(f, "5.2.3", "1.0.0"); }},
  };
}

std::vector<Mutation> of_containers() {
  return {
      {"CTR01", "docker", without_nodes},
      {"CTR02", "docker", [](Facts& f) { f.nodes.nvidia = nvidia_nodes(EPERM); }},
      {"CTR02", "docker", [](Facts& f) { f.container.devices_list = std::string("c 195:* m\n"); }},
      {"CTR06", "docker",
       [](Facts& f) {
         without_nodes(f);
         set(f, "NVIDIA_VISIBLE_DEVICES", "void");
       }},
      {"CTR07", "docker",
       [](Facts& f) {
         f.files.cuda = std::vector<LibraryFile>{};
         set(f, "NVIDIA_DRIVER_CAPABILITIES", "utility");
       }},
      {"CTR08", "docker", [](Facts& f) { set(f, "NVIDIA_REQUIRE_CUDA", "cuda>=12.8"); }},
      {"CTR11", "podman",
       [](Facts& f) {
         f.nodes.nvidia = nvidia_nodes(EACCES);
         f.container.label = std::string("system_u:system_r:container_t:s0");
       }},
      {"CTR12", "podman",
       [](Facts& f) {
         auto nodes = nvidia_nodes(EACCES);
         for (GpuNode& one : nodes) one.node.mode = 0660, one.node.gid = 65534;
         f.nodes.nvidia = nodes;
       }},
      {"CTR13", "docker",
       [](Facts& f) {
         f.files.cuda = std::vector<LibraryFile>{{"/l/libcuda.so.1", "/l/libcuda.so.535.1.2"}};
       }},
      {"CTR14", "docker",
       [](Facts& f) {
         f.files.compat = LibraryFile{"/c/compat/libcuda.so.1", "/c/compat/libcuda.so.560.1.2"};
         f.driver.cuda_init = 804;
       }},
      {"CTR15", "docker", [](Facts& f) { f.process.shm_total_bytes = std::uint64_t{64} << 20; }},
      {"CTR16", "docker",
       [](Facts& f) {
         f.container.infiniband = std::vector<std::string>{"mlx5_0"};
         f.process.memlock_limit_bytes = std::uint64_t{65536};
       }},
      {"CTR17", "kubernetes", without_nodes},
      {"CTR17", "kubernetes", [](Facts& f) { set(f, "NVIDIA_VISIBLE_DEVICES", "all"); }},
      {"CTR18", "lxc", [](Facts& f) { f.nodes.nvidia = std::vector{nvidia_node("/dev/nvidia0")}; }},
      {"CTR19", "docker", amd},
      {"CTR20", "apptainer", [](Facts& f) { f.files.cuda = std::vector<LibraryFile>{}; }},
  };
}

std::vector<Mutation> mutations() {
  auto all = of_machines();
  const auto more = of_containers();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("one thing wrong with a container is named first, and undoing it is clean") {
  for (const Mutation& one : mutations()) {
    CAPTURE(one.rule);
    Facts facts = healthy(one.kind);
    CHECK(first(facts).empty());
    one.change(facts);
    CHECK(first(facts) == one.rule);
  }
}

TEST_CASE("what cannot be read of a container makes no rule find anything, or call it checked") {
  for (const Mutation& one : mutations()) {
    CAPTURE(one.rule);
    Facts facts = healthy(one.kind);
    one.change(facts);
    facts.container.kind = Unreadable{"/proc/self/cgroup", EACCES};
    facts.process.environment = Unreadable{"environment", 0};
    facts.files.cuda = facts.files.nvml = Unreadable{"/usr/lib", EACCES};
    const auto diagnosis = diagnose_with(container_rules_all(), facts, {});
    CHECK(diagnosis.findings.empty());
    CHECK(std::find(diagnosis.checked.begin(), diagnosis.checked.end(), one.rule) ==
          diagnosis.checked.end());
  }
}

TEST_CASE("look-alikes of a container without its GPU are left alone") {
  // With CDI, Podman sets "void", so that NVIDIA's runtime does not add the devices a second time.
  Facts podman = healthy("podman");
  set(podman, "NVIDIA_VISIBLE_DEVICES", "void");
  CHECK(first(podman).empty());
  // The machine has no GPU.
  Facts bare = healthy("docker");
  without_nodes(bare);
  bare.machine.pci = std::vector<PciFunction>{};
  bare.machine.modules = std::vector<std::string>{};
  bare.files.kernel_module = {};
  CHECK(first(bare).empty());
  // On a Jetson, nodes with other names are enough.
  Facts jetson = healthy("docker");
  without_nodes(jetson);
  jetson.machine.is_jetson = true;
  jetson.nodes.tegra = std::vector{nvidia_node("/dev/nvhost-gpu")};
  CHECK(first(jetson).empty());
  jetson.nodes.tegra = std::vector<GpuNode>{};
  CHECK(first(jetson) == "CTR01");
  // Only information: the image sets "all", and the cluster provides the GPUs in another way.
  Facts pod = healthy("kubernetes");
  set(pod, "NVIDIA_VISIBLE_DEVICES", "all");
  pod.driver.nvml_init = 0;
  CHECK(diagnose_with(container_rules_all(), pod, {}).findings.at(0).severity == Severity::kInfo);
  // A container without ROCm does not need the Radeon.
  Facts radeon = healthy("docker");
  amd(radeon);
  radeon.rocm.folder = {};
  CHECK(first(radeon).empty());
}

TEST_CASE("a scheduler's job without a GPU is told so, and one with some of them is not") {
  Facts job = healthy("");
  job.container.kind = {};
  job.nodes.nvidia = nvidia_nodes(EPERM);
  CHECK(first(job) == "CTR02");
  set(job, "SLURM_JOB_ID", "12");
  CHECK(diagnose_with(container_rules_all(), job, {}).findings.at(0).title.find("Slurm") !=
        std::string::npos);
  auto some = *job.nodes.nvidia;
  some.push_back(nvidia_node("/dev/nvidia7"));
  job.nodes.nvidia = some;
  CHECK(first(job).empty());
}

TEST_CASE("a rootless container may have lost the group of the GPUs alone, or of one of them") {
  constexpr gid_t kNobodysGroup = 65534;
  Facts facts = healthy("docker");
  auto nodes = *facts.nodes.nvidia;
  nodes.push_back(nvidia_node("/dev/nvidia1"));
  const auto close = [&](std::size_t at) {
    nodes[at].node.mode = 0660;
    nodes[at].node.gid = kNobodysGroup;
    nodes[at].node.open_error = EACCES;
    facts.nodes.nvidia = nodes;
  };
  close(1);  // /dev/nvidia0 is closed, but /dev/nvidia1 can be opened
  CHECK(first(facts).empty());
  close(3);
  CHECK(first(facts) == "CTR12");
}

TEST_CASE("a closed render node is in the way of AMD's and Intel's GPUs, not of CUDA") {
  Facts facts = healthy("lxc");
  GpuNode render = nvidia_node("/dev/dri/renderD128", EACCES);
  render.node.mode = 0660;
  render.node.gid = 65534;
  facts.nodes.render = std::vector{render};
  CHECK(first(facts).empty());
  render.vendor = 0x8086;
  facts.nodes.render = std::vector{render};
  CHECK(first(facts) == "CTR12");
  render.vendor = 0;
  facts.nodes.render = std::vector{render};
  facts.machine.pci = std::vector{card("0000:03:00.0", 0x1002, 0x744c, "amdgpu")};
  CHECK(first(facts) == "CTR12");
}

TEST_CASE("a container in WSL may be kept from /dev/dxg by its device filter") {
  Facts facts = healthy("docker");
  facts.nodes.nvidia = std::vector<GpuNode>{};
  facts.nodes.dxg = nvidia_node("/dev/dxg");
  CHECK(first(facts).empty());
  facts.nodes.dxg = nvidia_node("/dev/dxg", EPERM);
  CHECK(first(facts) == "CTR02");
}

TEST_CASE("of a node's settings those count that what runs there reads") {
  constexpr const char* kNvidia =
      "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\n";
  constexpr const char* kContainerd = "/etc/containerd/config.toml";
  constexpr const char* kDropped = "/etc/containerd/conf.d/99-nvidia.toml";
  constexpr const char* kOfK3s = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml";
  bool has_docker = false;
  const auto said = [&](std::vector<RuntimeSettings> files) -> std::string {
    Facts facts = healthy("");
    if (has_docker) with_docker(facts);
    facts.nodes.char_links = std::vector<std::string>{"/dev/char/195:0"};
    facts.container.kind = {};
    facts.container.engines.kubelet = std::string("/var/lib/kubelet");
    facts.container.engines.cdi = std::vector<CdiSpec>{};
    facts.container.engines.node_runtimes = std::move(files);
    const auto findings = diagnose_with(container_rules_all(), facts, {}).findings;
    if (findings.empty()) return "";
    CHECK(findings.front().id == "CTR04");
    return findings.front().evidence.front();
  };
  CHECK(said({{kContainerd, kNvidia}}).empty());
  CHECK(!said({{kContainerd, "# nvidia\n"}}).empty());
  CHECK(said({{kOfK3s, "runc"}, {kContainerd, kNvidia}}).find(kContainerd) == 0);
  CHECK(said({{kContainerd, kNvidia}, {kOfK3s, kNvidia}}).empty());
  CHECK(said({{kContainerd, "version = 2\n"}, {kDropped, kNvidia}}).find(kDropped) == 0);
  CHECK(
      said({{kContainerd, "imports = [\"/etc/containerd/conf.d/*.toml\"]\n"}, {kDropped, kNvidia}})
          .empty());
  CHECK(said({{kDropped, kNvidia}}).empty());
  CHECK(said({{kContainerd, std::string("version = 3\n") + kNvidia}}).find("version 3") !=
        std::string::npos);
  CHECK(
      said({{kContainerd,
             "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]\n"}})
          .empty());
  // The highest version number in these files applies to all of them, so the name in version 2 is
  // not recognized.
  constexpr const char* kThird =
      "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n"
      "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n";
  CHECK(said({{kContainerd, kThird}, {kDropped, std::string("version = 2\n") + kNvidia}})
            .find(kDropped) == 0);
  CHECK(
      said({{kContainerd, kThird},
            {kDropped,
             "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]\n"}})
          .empty());
  CHECK(
      said({{kContainerd, std::string("disabled_plugins = [\"cri\"]\n") + kNvidia}}).find("CRI") !=
      std::string::npos);
  // This containerd belongs to Docker; the kubelet uses CRI-O or cri-dockerd.
  constexpr const char* kOff = "disabled_plugins = [\"cri\"]\n";
  CHECK(said({{kContainerd, kOff}, {"/etc/crio/crio.conf.d/99-nvidia.toml", kNvidia}}).empty());
  has_docker = true;
  CHECK(said({{kContainerd, kOff}}).empty());
}

TEST_CASE("a node whose device plugin has to name NVIDIA's runtime, and does not") {
  constexpr auto kContainerd = "/etc/containerd/config.toml";
  constexpr auto kOfK3s = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml";
  const std::string known = "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\n";
  const std::string runc = "default_runtime_name = \"runc\"\n" + known;
  const auto node = [&](const std::string& path, const std::string& text) {
    Facts facts = healthy("");
    facts.container.kind = {};
    auto& engines = facts.container.engines;
    engines.kubelet = std::string("/var/lib/kubelet");
    engines.node_runtimes = std::vector<RuntimeSettings>{{path, text}};
    engines.plugin_sockets = std::vector<std::string>{"DEPRECATION", "kubelet.sock"};
    return facts;
  };
  const auto said = [](const Facts& facts) {
    const auto found = diagnose_with(container_rules_all(), facts, {}).findings;
    return found.empty() ? "" : found.front().title;
  };
  CHECK(said(node(kContainerd, runc)).starts_with("this node offers no GPU"));
  CHECK(said(node(kOfK3s, known)).starts_with("this node offers no GPU"));
  CHECK(said(node(kContainerd, "default_runtime_name = 'nvidia'\n" + known)).empty());
  CHECK_MESSAGE(said(node("/etc/crio/crio.conf.d/99-nvidia.conf", known)).empty(), "CRI-O's hooks");
  Facts facts = node(kContainerd, runc);
  auto& engines = facts.container.engines;
  engines.plugin_sockets = std::vector<std::string>{"kubelet.sock", "nvidia-gpu.sock"};
  CHECK_MESSAGE(said(facts).empty(), "it works through a RuntimeClass");
  engines.plugin_sockets = std::vector<std::string>{};
  CHECK_MESSAGE(said(facts).empty(), "no kubelet runs");
  engines.plugin_sockets = Unreadable{"/var/lib/kubelet/device-plugins", EACCES};
  CHECK_MESSAGE(said(facts).empty(), "not root");
  engines.plugin_sockets = std::vector<std::string>{"kubelet.sock"};
  engines.claims_driver = true;
  CHECK_MESSAGE(said(facts).empty(), "by claims (DRA)");
  engines.claims_driver = {};
  engines.cdi =
      std::vector<CdiSpec>{{"/etc/cdi/nvidia.yaml", "nvidia.com/gpu", {"all"}, {}, "", 0, ""}};
  CHECK_MESSAGE(said(facts).empty(), "by CDI");
  engines.cdi = std::vector<CdiSpec>{};
  engines.kubelet = {};
  CHECK_MESSAGE(said(facts).empty(), "no node");
  // This node's container engine is Docker.
  engines.kubelet = std::string("/var/lib/kubelet");
  engines.node_runtimes = {};
  engines.docker = std::string("/usr/bin/dockerd");
  engines.toolkit = std::string("/usr/bin/nvidia-container-runtime-hook");
  engines.char_links_rule = std::string("/lib/udev/rules.d/71-nvidia-dev-char.rules");
  engines.daemon_json =
      std::string(R"({"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}})");
  CHECK(said(facts).find("/etc/docker/daemon.json") != std::string::npos);
  engines.daemon_json = std::string(
      R"({"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}})");
  CHECK(said(facts).empty());
}

TEST_CASE("a node whose GPUs a plugin of another name, or of a cloud, has registered") {
  constexpr auto kContainerd = "/etc/containerd/config.toml";
  Facts facts = healthy("");
  facts.container.kind = {};
  auto& engines = facts.container.engines;
  engines.kubelet = std::string("/var/lib/kubelet");
  engines.cdi = std::vector<CdiSpec>{};
  const auto said = [&](const char* settings, const char* socket) {
    engines.node_runtimes = std::vector<RuntimeSettings>{{kContainerd, settings}};
    engines.plugin_sockets = std::vector<std::string>{"kubelet.sock", socket};
    return diagnose_with(container_rules_all(), facts, {}).findings;
  };
  constexpr auto kKnown = "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\n";
  constexpr auto kUnknown = "version = 2\n";
  for (const char* plugin : {"volcano.sock", "vcuda.sock", "hami.sock", "nvidia-mps.sock",
                             "nvidiaGPU-1712345678.sock"}) {
    CAPTURE(plugin);
    CHECK(said(kKnown, plugin).empty());
    // On GKE, containerd is not configured for NVIDIA's runtime, because the device plugin passes
    // the nodes.
    CHECK(said(kUnknown, plugin).empty());
  }
  REQUIRE(said(kUnknown, "rdma.sock").size() == 1);
  engines.plugin_sockets = Unreadable{"/var/lib/kubelet/device-plugins", EACCES};
  // Without root, the sockets of device plugins are unreadable, so the rule cannot be checked.
  const auto unseen = diagnose_with(container_rules_all(), facts, {});
  CHECK(unseen.findings.empty());
  CHECK(std::any_of(unseen.not_checked.begin(), unseen.not_checked.end(), [](const auto& one) {
    return one.id == "CTR04" && one.why.find("device-plugins") != std::string::npos;
  }));
  const auto found = said(kKnown, "rdma.sock");
  REQUIRE(found.size() == 1);
  CHECK_MESSAGE(found.front().fix.back().command.find(
                    " --repo https://nvidia.github.io/k8s-device-plugin ") != std::string::npos,
                "helm knows no repository nvdp by itself");
}

TEST_CASE("a container library from before cgroup v2") {
  const auto found = [](const char* version, bool v2, const char* config) {
    Facts facts = healthy("");
    facts.container.kind = {};
    auto& engines = facts.container.engines;
    engines.toolkit_library = LibraryFile{"/l/libnvidia-container.so.1",
                                          std::string("/l/libnvidia-container.so.") + version};
    if (v2) engines.cgroup_v2 = true;
    if (*config != '\0') engines.toolkit_config = std::string(config);
    return first(facts);
  };
  CHECK(found("1.3.3", true, "") == "CTR04");
  CHECK(found("1.7.0", true, "#no-cgroups = true\n") == "CTR04");
  CHECK(found("1.8.0", true, "").empty());
  CHECK(found("1.17.4", true, "").empty());
  CHECK_MESSAGE(found("1.3.3", false, "").empty(), "cgroup v1, or both");
  CHECK_MESSAGE(found("1.3.3", true, "no-cgroups = true\n").empty(), "rootless");
  CHECK_MESSAGE(found("1.3.3", true, "mode = \"cdi\"\n").empty(), "by CDI");
}

TEST_CASE("a CDI spec serves each Podman that reads its format") {
  using Pairs = std::vector<std::pair<const char*, const char*>>;
  for (const auto& [podman, format] :
       Pairs{{"4.9.3", "0.6.0"}, {"5.1.0", "0.7.0"}, {"5.5.0", "1.0.0"}, {"5.9.1", "1.2.0"}}) {
    const auto shown = podman;  // clang cannot capture structured bindings in lambdas
    CAPTURE(shown);
    Facts facts = healthy("");
    with_podman(facts, podman, format);
    CHECK(diagnose(facts, Knowledge{}, {"CTR10"}).findings.empty());
  }
}

TEST_CASE("a toolkit that wants cgroups has its fault where it is told not to use them") {
  const auto found = [](const char* config) {
    Facts facts = healthy("");
    facts.container.kind = {};
    using Packages = std::map<std::string, std::string>;
    facts.container.engines.packages = Packages{{"nvidia-container-toolkit", "1.18.0"}};
    facts.container.engines.toolkit_config = std::string(config);
    return !diagnose(facts, Knowledge{}, {"CTR28"}).findings.empty();
  };
  CHECK(found("[nvidia-container-cli]\nno-cgroups=true\n"));
  CHECK_FALSE(found("[nvidia-container-cli]\n#no-cgroups = true\n"));
}

}  // namespace container_test
