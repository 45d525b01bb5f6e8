// Tests of containers that run, of containers that are denied access, and of CDI specs.
#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>

#include "doctor/read/collectors.hpp"
#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;

namespace container_refused_test {
namespace {

std::vector<GpuNode> nvidia_nodes(int open_error) {
  std::vector<GpuNode> nodes;
  for (const char* path : {"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"}) {
    Node node;
    node.type = NodeType::kCharacter;
    node.mode = 0666;
    node.open_error = open_error;
    nodes.push_back({path, node, 0});
  }
  return nodes;
}

/// A Docker container on a machine with driver 550.
Facts in_docker() {
  Facts facts;
  facts.machine.modules = std::vector<std::string>{"nvidia", "nvidia_uvm"};
  facts.machine.pci = std::vector{tests::card("0000:01:00.0", 0x10de, 0x2684, "nvidia")};
  facts.files.kernel_module = std::string("550.54.15");
  facts.nodes.nvidia = nvidia_nodes(0);
  facts.container.kind = std::string("docker");
  facts.process.identity = Identity{0, 0, {0}};
  facts.process.environment = Environment{};
  return facts;
}

std::vector<Finding> found(const Facts& facts, const char* rule) {
  return diagnose(facts, Knowledge{}, {rule}).findings;
}

}  // namespace

TEST_CASE("a node open to all that is refused is found whatever the label is called") {
  const auto first = [](const char* label, int nvml) {
    Facts facts = in_docker();
    facts.nodes.nvidia = nvidia_nodes(EACCES);
    if (*label != '\0') facts.container.label = std::string(label);
    facts.driver.nvml_init = nvml;
    const auto all = found(facts, "CTR11");
    return all.empty() ? "" : all.front().title + "|" + all.front().fix.front().command;
  };
  CHECK(first("system_u:system_r:svirt_lxc_net_t:s0:c1,c2", 4).find("label=disable") !=
        std::string::npos);
  CHECK(first("system_u:system_r:container_t:s0", 4).find("container_use_devices") !=
        std::string::npos);
  CHECK(first("docker-default (enforce)", 4).find("apparmor=unconfined") != std::string::npos);
  CHECK(first("", 4).starts_with("SELinux"));
  CHECK(first("system_u:system_r:svirt_lxc_net_t:s0:c1,c2", 0).empty());
}

TEST_CASE("a container that runs is not called unusable for what its image wants") {
  Facts facts = in_docker();
  facts.process.environment = Environment{{"NVIDIA_REQUIRE_CUDA", "cuda>=13.0"}};
  const auto severity = [&] {
    const auto all = found(facts, "CTR08");
    return all.empty() ? Severity::kInfo : all.front().severity;
  };
  CHECK(severity() == Severity::kError);
  facts.driver.cuda_init = 0;
  CHECK(severity() == Severity::kError);
  facts.process.environment = Environment{{"NVIDIA_REQUIRE_CUDA", "cuda>=12.8"}};
  CHECK(severity() == Severity::kWarning);
}

TEST_CASE("a CDI spec is found where it lies in /run alone, and counted once behind a link") {
  const char* spec = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: all\n";
  const berth::system::TemporaryTree alone;
  alone.put("run/cdi/nvidia.yaml", spec);
  const auto specs = collect_cdi(Tree(alone.path));
  REQUIRE(specs);
  REQUIRE(specs->size() == 1);
  CHECK(specs->front().path == "/run/cdi/nvidia.yaml");
  const berth::system::TemporaryTree linked;
  linked.put("run/cdi/nvidia.yaml", spec);
  linked.put("var/x", "");
  std::filesystem::create_directory_symlink("../run", linked.path + "/var/run");
  CHECK(collect_cdi(Tree(linked.path)).value_or({}).size() == 1);
  // On real machines, the link is absolute.
  const berth::system::TemporaryTree absolute;
  absolute.put("run/cdi/nvidia.yaml", spec);
  absolute.put("var/x", "");
  std::filesystem::create_directory_symlink("/run", absolute.path + "/var/run");
  CHECK(collect_cdi(Tree(absolute.path)).value_or({}).size() == 1);
}

}  // namespace container_refused_test
