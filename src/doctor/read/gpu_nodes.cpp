#include "doctor/facts/gpu_nodes.hpp"
#include "doctor/read/collectors.hpp"

#include <algorithm>

#include "base/text_parts.hpp"

namespace berth::doctor {
namespace {

Fact<GpuNode> look_at(const Tree& tree, const std::string& path) {
  return tree.node(path, true).map([&](const Node& node) { return GpuNode{path, node, 0}; });
}

/// Nodes in a folder whose names start with `prefix`. Empty if the folder does not exist.
Fact<std::vector<GpuNode>> look_for(const Tree& tree, const std::string& folder,
                                    std::string_view prefix) {
  const auto names = tree.list(folder);
  if (names.is_unreadable()) return names.why();
  std::vector<GpuNode> found;
  for (const std::string& name : names.value_or({})) {
    if (!name.starts_with(prefix)) continue;
    const auto one = look_at(tree, folder + "/" + name);
    if (one.is_unreadable()) return one.why();
    if (one && one->node.type != NodeType::kFolder) found.push_back(*one);
  }
  return found;
}

Fact<std::string> vendor_of(const Tree& tree, const std::string& render) {
  return tree.line("/sys/class/drm/" + render.substr(render.rfind('/') + 1) + "/device/vendor");
}

}  // namespace

GpuNodes collect_gpu_nodes(const Tree& tree) {
  GpuNodes nodes;
  nodes.nvidia = look_for(tree, "/dev", "nvidia");
  auto render = look_for(tree, "/dev/dri", "renderD");
  std::vector<Fact<std::string>> vendors;
  nodes.render = render.map([&](std::vector<GpuNode> found) {
    for (GpuNode& one : found) {
      vendors.push_back(vendor_of(tree, one.path));
      one.vendor = static_cast<std::uint32_t>(to_number(vendors.back().value_or("")).value_or(0));
    }
    return found;
  });
  for (const auto& vendor : vendors) nodes.render.doubt(vendor);
  nodes.tegra = look_for(tree, "/dev", "nvhost-");
  if (nodes.tegra && nodes.tegra->empty()) nodes.tegra = look_for(tree, "/dev", "nvmap");
  nodes.kfd = look_at(tree, "/dev/kfd");
  nodes.dxg = look_at(tree, "/dev/dxg");
  const auto links = tree.list("/dev/char");
  if (links.is_unreadable()) {
    nodes.char_links = links.why();
  } else {
    auto names = links.value_or({});
    std::erase_if(names, [](const std::string& name) { return !name.starts_with("195:"); });
    nodes.char_links = std::move(names);
  }
  return nodes;
}

Fact<GpuNode> GpuNodes::nvidia_node(std::string_view path) const {
  if (nvidia.is_unreadable()) return nvidia.why();
  for (const GpuNode& one : nvidia.value_or({}))
    if (one.path == path) return one;
  return {};
}

Fact<std::vector<GpuNode>> GpuNodes::nvidia_gpus() const {
  return nvidia.map([](std::vector<GpuNode> found) {
    std::erase_if(found, [](const GpuNode& one) {
      const std::string_view name = std::string_view(one.path).substr(sizeof "/dev/nvidia" - 1);
      return name.empty() || name.find_first_not_of("0123456789") != std::string_view::npos;
    });
    return found;
  });
}

}  // namespace berth::doctor
