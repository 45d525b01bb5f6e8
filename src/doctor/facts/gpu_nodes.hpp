// The device nodes of GPUs, and whether this process may open them.
#pragma once

#include <cerrno>
#include <string>
#include <vector>

#include "doctor/facts/fact.hpp"
#include "doctor/facts/node.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

struct GpuNode {
  std::string path;
  Node node;
  std::uint32_t vendor = 0;  // vendor id of the GPU, for render nodes; 0: unknown

  /// True if permissions, the device filter or a security module deny access.
  [[nodiscard]] bool denied() const {
    return node.open_error == EACCES || node.open_error == EPERM;
  }
};

struct GpuNodes {
  Fact<std::vector<GpuNode>> nvidia;  // /dev/nvidia*: nvidiactl, nvidia0, nvidia-uvm, …
  Fact<std::vector<GpuNode>> render;  // render nodes: /dev/dri/renderD*
  Fact<std::vector<GpuNode>> tegra;   // on a Jetson: /dev/nvhost-gpu, /dev/nvmap, …
  Fact<GpuNode> kfd, dxg;
  /// /dev/char/195:*, the links that systemd and runc use to find NVIDIA's nodes.
  Fact<std::vector<std::string>> char_links;

  /// The NVIDIA node with this path.
  [[nodiscard]] Fact<GpuNode> nvidia_node(std::string_view path) const;
  /// The nodes of NVIDIA's GPUs: /dev/nvidia0, /dev/nvidia1, …
  [[nodiscard]] Fact<std::vector<GpuNode>> nvidia_gpus() const;
};

}  // namespace berth::doctor
