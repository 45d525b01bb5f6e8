// Where the libraries that come with a driver lie. Which of them a program gets is the loader's
// business; here is only what there is, in about the order of its search.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

struct LibraryFile {
  std::string path;    // "/usr/lib64/libcuda.so.1"
  std::string target;  // after all links: "/usr/lib64/libcuda.so.550.54.15"

  /// "550.54.15"; "" where the name does not say.
  [[nodiscard]] std::string version() const;
};

struct DriverFiles {
  /// Folders the loader knows: of LD_LIBRARY_PATH, of /etc/ld.so.conf.d, its own.
  Fact<std::vector<std::string>> folders;
  Fact<std::vector<LibraryFile>> cuda;          // libcuda.so.1
  Fact<std::vector<LibraryFile>> nvml;          // libnvidia-ml.so.1
  Fact<std::vector<LibraryFile>> level_zero;    // libze_loader.so.1
  Fact<std::vector<LibraryFile>> intel_driver;  // libze_intel_gpu.so.1
  /// libze_intel_gpu_legacy1.so.1: of the packages for GPUs that the ordinary ones have dropped.
  Fact<std::vector<LibraryFile>> intel_legacy;
  Fact<std::vector<LibraryFile>> sycl_adapter;  // by which oneAPI's SYCL calls Level Zero
  Fact<LibraryFile> compat;                     // libcuda.so.1 of CUDA's compat package
  Fact<std::string> kernel_module;              // version of the loaded NVIDIA module
};

[[nodiscard]] DriverFiles collect_driver_files(const Tree& tree, const ProcessFacts& process);

/// 535.104 < 535.129: part by part, as numbers.
[[nodiscard]] bool version_less(std::string_view a, std::string_view b);

}  // namespace berth::doctor
