// The driver libraries on this machine, roughly in search order. facts/libraries.hpp has the
// libraries that the loader would choose for a program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/fact.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

struct LibraryFile {
  std::string path;    // "/usr/lib64/libcuda.so.1"
  std::string target;  // path with all links resolved: "/usr/lib64/libcuda.so.550.54.15"

  /// The version in the name of the target: "550.54.15"; "" if there is none.
  [[nodiscard]] std::string version() const;
};

struct DriverFiles {
  /// The folders that the loader searches: those of LD_LIBRARY_PATH and /etc/ld.so.conf.d, and its
  /// defaults.
  Fact<std::vector<std::string>> folders;
  Fact<std::vector<LibraryFile>> cuda;          // files called libcuda.so.1
  Fact<std::vector<LibraryFile>> nvml;          // files called libnvidia-ml.so.1
  Fact<std::vector<LibraryFile>> level_zero;    // files called libze_loader.so.1
  Fact<std::vector<LibraryFile>> intel_driver;  // files called libze_intel_gpu.so.1
  /// libze_intel_gpu_legacy1.so.1, from the packages for GPUs that the main packages no longer
  /// support.
  Fact<std::vector<LibraryFile>> intel_legacy;
  Fact<std::vector<LibraryFile>> sycl_adapter;  // the adapter through which SYCL calls Level Zero
  Fact<LibraryFile> compat;                     // the libcuda.so.1 in CUDA's compatibility package
  Fact<std::string> kernel_module;              // version of the loaded NVIDIA module
};

}  // namespace berth::doctor
