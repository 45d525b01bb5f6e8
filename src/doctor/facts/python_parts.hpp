// Facts that do not follow from a package's version: which files exist, what interrupted builds
// left, and which Python notebooks use.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "doctor/facts/python.hpp"

namespace berth::doctor {

/// A Jupyter kernel that runs Python.
struct NotebookKernel {
  std::string name;    // name of its folder: "python3"
  std::string path;    // path of kernel.json
  std::string python;  // absolute path of the Python that the kernel starts
  bool is_there = false;
  bool is_own = false;  // the target's environment contains that Python; links are resolved
};

/// NVIDIA's OpenCL library, and the ICD files, which tell OpenCL loaders the name of this library.
struct OpenClFiles {
  std::string library;            // the system's libnvidia-opencl.so.1; empty if there is none
  std::vector<std::string> icds;  // files for NVIDIA in /etc/OpenCL/vendors
  bool conda_loader = false;      // the environment contains conda's OpenCL loader
  std::vector<std::string> conda_icds;  // all files in the environment's own ICD folder
  std::string program;  // a program in PATH that uses OpenCL; empty if there is none
};

struct PythonParts {
  /// File names in package folders, by folder: "mmcv", "dgl/graphbolt". Folders that do not exist
  /// are left out.
  Fact<std::map<std::string, std::vector<std::string>, std::less<>>> folders;
  /// CPU packages whose files replaced those of a GPU package, because both install the same paths:
  /// "faiss-cpu".
  Fact<std::vector<std::string>> over_gpu_build;
  /// Lock files that PyTorch's extension builds created.
  Fact<std::vector<std::string>> build_locks;
  /// Path of ninja, from PATH or from its package. Unreadable with error 0: programs were not
  /// recorded.
  Fact<std::string> ninja;
  Fact<std::vector<NotebookKernel>> kernels;
  Fact<OpenClFiles> opencl;
  // whether AMD's module amdsmi can be imported, as a package or through PYTHONPATH
  Fact<bool> amdsmi;
};

}  // namespace berth::doctor
