#include "run/gpu_files.hpp"

#include <algorithm>
#include <array>

namespace berth::run {
namespace {

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool number_follows(std::string_view text, std::string_view prefix) {
  if (!starts_with(text, prefix) || text.size() == prefix.size()) return false;
  text.remove_prefix(prefix.size());
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

void insert(std::set<std::string, std::less<>>& set, std::string_view word) {
  if (set.size() < GpuFiles::kMost && set.find(word) == set.end()) set.emplace(word);
}

/// Whether the path is a shared library, such as "libtorch_cuda.so", "libcuda.so.580.95.05" or
/// "x.cpython-311-x86_64-linux-gnu.so (deleted)".
bool is_library(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const auto at = name.find(".so");
  if (at == std::string_view::npos) return false;
  const std::string_view rest = name.substr(at + 3);
  return rest.empty() || rest[0] == '.' || rest[0] == ' ';
}

/// Whether the path is one of the driver's libraries for CUDA, OpenCL or graphics. NVML does not
/// count, because it only monitors.
bool is_nvidia_driver(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  constexpr std::array<std::string_view, 4> kNames{"libcuda.so", "libnvidia-opencl.so",
                                                   "libnvidia-glcore.so", "libnvidia-eglcore.so"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](std::string_view known) { return starts_with(name, known); });
}

void add_path(std::string_view path, GpuFiles& gpu_files) {
  if (starts_with(path, "/dev/")) {
    if (is_work_node(path)) insert(gpu_files.nodes, path);
    if (number_follows(path, "/dev/nvidia")) insert(gpu_files.gpu_nodes, path);
  } else if (is_library(path)) {
    insert(gpu_files.files, path);
    gpu_files.has_driver = gpu_files.has_driver || is_nvidia_driver(path);
  }
}

}  // namespace

void add_maps(std::string_view maps, GpuFiles& gpu_files) {
  std::string_view last;  // the previous path: a library has several consecutive mappings
  while (!maps.empty()) {
    const auto end = std::min(maps.find('\n'), maps.size());
    const std::string_view line = maps.substr(0, end);
    maps.remove_prefix(std::min(end + 1, maps.size()));
    // A line has the columns: address perms offset dev inode path. So the path begins at the first
    // slash (proc_pid_maps(5)).
    const auto slash = line.find('/');
    if (slash == std::string_view::npos) continue;
    const std::string_view path = line.substr(slash);
    if (path != last) add_path(path, gpu_files);
    last = path;
  }
}

void add_descriptor(std::string_view target, GpuFiles& gpu_files) {
  if (starts_with(target, "/dev/")) add_path(target, gpu_files);
}

bool is_nvidia_node(std::string_view path) {
  return starts_with(path, "/dev/nvidia");
}

bool is_work_node(std::string_view path) {
  constexpr std::array<std::string_view, 3> kWhole{"/dev/nvidia-uvm", "/dev/kfd", "/dev/dxg"};
  if (std::find(kWhole.begin(), kWhole.end(), path) != kWhole.end()) return true;
  return number_follows(path, "/dev/dri/renderD") || number_follows(path, "/dev/accel") ||
         number_follows(path, "/dev/accel/accel") || number_follows(path, "/dev/vfio/");
}

}  // namespace berth::run
