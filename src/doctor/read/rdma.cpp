#include "doctor/facts/rdma.hpp"
#include "doctor/read/collectors.hpp"

#include "base/text_parts.hpp"

namespace berth::doctor {
namespace {

/// The word in a state line: "ACTIVE" for "4: ACTIVE".
std::string word_of(const std::string& state) {
  const auto colon = state.find(':');
  return std::string(trim(std::string_view(state).substr(colon == state.npos ? 0 : colon + 1)));
}

Fact<std::vector<RdmaPort>> ports_of(const Tree& tree) {
  const std::string folder = "/sys/class/infiniband";
  const auto adapters = tree.list(folder);
  if (adapters.is_unreadable()) return adapters.why();
  if (!adapters) return {};
  std::vector<RdmaPort> found;
  for (const std::string& adapter : *adapters) {
    const std::string ports = folder + "/" + adapter + "/ports";
    for (const std::string& number : tree.list(ports).value_or({})) {
      RdmaPort port{adapter, "", false, ports + "/" + number};
      port.state = word_of(tree.line(port.path + "/state").value_or(""));
      port.ethernet = tree.line(port.path + "/link_layer").value_or("") == "Ethernet";
      if (!port.state.empty()) found.push_back(std::move(port));
    }
  }
  return found;
}

bool is_plugin(std::string_view name) {
  return name.starts_with("libnccl-net") && name.find(".so") != name.npos;
}

bool has_plugin(const Tree& tree, const std::string& folder) {
  for (const std::string& name : tree.list(folder).value_or({}))
    if (is_plugin(name)) return true;
  return false;
}

Fact<std::vector<std::string>> plugins_in(const Tree& tree,
                                          const Fact<std::vector<std::string>>& searched) {
  if (searched.is_unreadable()) return searched.why();
  std::vector<std::string> found;
  for (const std::string& folder : searched.value_or({}))
    for (const std::string& name : tree.list(folder).value_or({}))
      if (is_plugin(name)) found.push_back(folder + "/" + name);
  return found;
}

Fact<std::string> efa_plugin(const Tree& tree) {
  for (const std::string prefix :
       {"/opt/amazon/ofi-nccl", "/opt/amazon/aws-ofi-nccl", "/opt/aws-ofi-nccl"})
    for (const char* part : {"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib"})
      if (has_plugin(tree, prefix + part)) return prefix + part;
  return {};
}

}  // namespace

RdmaFacts collect_rdma(const Tree& tree, const Fact<std::vector<std::string>>& searched) {
  RdmaFacts facts;
  facts.ports = tree.watched([&] { return ports_of(tree); });
  facts.nodes = tree.list("/dev/infiniband");
  // If there is no adapter, the rest is not needed.
  if (facts.ports.is_absent()) return facts;
  facts.nccl_plugin = tree.watched([&] { return plugins_in(tree, searched); });
  facts.efa_plugin = tree.watched([&] { return efa_plugin(tree); });
  return facts;
}

}  // namespace berth::doctor
