// GpuFiles: the GPU libraries and device nodes that a process has mapped or open. Pure; the texts
// come from other people's processes and are never trusted.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

namespace berth::run {

struct GpuFiles {
  std::set<std::string, std::less<>> files;   // shared libraries, as /proc/PID/maps names them
  std::set<std::string, std::less<>> nodes;   // device nodes that lead to a GPU or TPU
  static constexpr std::size_t kMost = 8192;  // of each: a hostile program must not fill our memory
};

/// Adds what a /proc/PID/maps text names.
void add_maps(std::string_view maps, GpuFiles& gpu_files);
/// Adds the target of one /proc/PID/fd link.
void add_descriptor(std::string_view target, GpuFiles& gpu_files);

/// Nodes only work on a device needs: NVIDIA's unified memory (NVML does without), AMD's and
/// Intel's compute and render nodes, WSL's /dev/dxg, TPUs.
[[nodiscard]] bool is_work_node(std::string_view path);
/// NVIDIA's own ones: a CUDA program opens them already when it only asks whether there is a GPU.
[[nodiscard]] bool is_nvidia_node(std::string_view path);

}  // namespace berth::run
