// The device nodes through which programs reach a GPU, and whether this process may open them.
#pragma once

#include <cerrno>
#include <string>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

struct GpuNode {
  std::string path;
  Node node;
  std::uint32_t vendor = 0;  // render nodes: of the PCI function behind it; 0: not known

  /// Permissions, the device filter or a security module keep this process out.
  [[nodiscard]] bool denied() const {
    return node.open_error == EACCES || node.open_error == EPERM;
  }
};

struct GpuNodes {
  Fact<std::vector<GpuNode>> nvidia;  // /dev/nvidia*: nvidiactl, nvidia0, nvidia-uvm, …
  Fact<std::vector<GpuNode>> render;  // /dev/dri/renderD*
  Fact<std::vector<GpuNode>> tegra;   // a Jetson's: /dev/nvhost-gpu, /dev/nvmap, …
  Fact<GpuNode> kfd, dxg;
  /// /dev/char/195:*: the links by which systemd and runc find NVIDIA's nodes again.
  Fact<std::vector<std::string>> char_links;

  /// One of NVIDIA's by name; absent where there is none.
  [[nodiscard]] Fact<GpuNode> nvidia_node(std::string_view path) const;
  /// /dev/nvidia0, /dev/nvidia1, …
  [[nodiscard]] Fact<std::vector<GpuNode>> nvidia_gpus() const;
};

[[nodiscard]] GpuNodes collect_gpu_nodes(const Tree& tree);

}  // namespace berth::doctor
