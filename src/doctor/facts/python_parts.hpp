// Facts that a package's version does not determine: which files exist, leftovers of interrupted
// builds, and the Python of notebooks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "doctor/facts/python.hpp"

namespace berth::doctor {

/// A Jupyter kernel that runs Python.
struct NotebookKernel {
  std::string name;    // name of its folder: "python3"
  std::string path;    // of kernel.json
  std::string python;  // absolute path of the Python it starts
  bool is_there = false;
  bool is_own = false;  // that Python belongs to the inspected environment; links are resolved
};

/// NVIDIA's OpenCL library, and the files (ICD) that tell OpenCL loaders about it.
struct OpenClFiles {
  std::string library;                  // the system's libnvidia-opencl.so.1; "" none
  std::vector<std::string> icds;        // files for NVIDIA in /etc/OpenCL/vendors
  bool conda_loader = false;            // the environment contains conda's OpenCL loader
  std::vector<std::string> conda_icds;  // all files in the environment's own ICD folder
  std::string program;                  // a program in PATH that uses OpenCL; "" none
};

struct PythonParts {
  /// File names in package folders: "mmcv", "dgl/graphbolt". A folder that does not exist has no
  /// row.
  Fact<std::map<std::string, std::vector<std::string>, std::less<>>> folders;
  /// CPU packages whose files have the same paths as those of the GPU package, and were written
  /// later: "faiss-cpu".
  Fact<std::vector<std::string>> over_gpu_build;
  /// Lock files of PyTorch's extension builds.
  Fact<std::vector<std::string>> build_locks;
  /// Path of ninja, from PATH or from the package. Unreadable with error 0: programs were not
  /// recorded.
  Fact<std::string> ninja;
  Fact<std::vector<NotebookKernel>> kernels;
  Fact<OpenClFiles> opencl;
  Fact<bool> amdsmi;  // whether AMD's module can be imported, as a package or through PYTHONPATH
};

}  // namespace berth::doctor
