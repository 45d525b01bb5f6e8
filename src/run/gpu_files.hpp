// GpuFiles: the GPU libraries and device nodes that a process has mapped or opened. Pure: callers
// pass in the texts of /proc/PID/maps and links of /proc/PID/fd. They describe other users'
// processes, so they are not trusted.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

namespace berth::run {

struct GpuFiles {
  std::set<std::string, std::less<>> files;  // shared libraries, with the paths in /proc/PID/maps
  // device nodes of a GPU or TPU that programs open only to compute, not to monitor
  std::set<std::string, std::less<>> nodes;
  std::set<std::string, std::less<>>
      // nodes such as "/dev/nvidia0", which programs open to compute, but also to monitor
      gpu_nodes;
  bool has_driver = false;  // a library through which programs use NVIDIA's GPUs is loaded
  static constexpr std::size_t kMost =
      8192;  // limit for the entries of each set, so that a hostile program cannot fill our memory
};

/// Adds the files in a /proc/PID/maps text.
void add_maps(std::string_view maps, GpuFiles& gpu_files);
/// Adds the target of one /proc/PID/fd link.
void add_descriptor(std::string_view target, GpuFiles& gpu_files);

/// Whether programs open this node only to use a device, not to monitor it: NVIDIA's unified memory
/// (NVML does not use it), AMD's and Intel's compute and render nodes, WSL's /dev/dxg, TPUs.
[[nodiscard]] bool is_work_node(std::string_view path);
/// Whether the path is one of NVIDIA's nodes. A CUDA program opens these even if it only checks for
/// a GPU.
[[nodiscard]] bool is_nvidia_node(std::string_view path);

}  // namespace berth::run
