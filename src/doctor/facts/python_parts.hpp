// What no version of a package tells: which of its files are there, what an interrupted build has
// left, and which Python a notebook would start.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "doctor/facts/python.hpp"

namespace berth::doctor {

/// A kernel of Jupyter's that runs Python.
struct NotebookKernel {
  std::string name;    // its folder's: "python3"
  std::string path;    // of kernel.json
  std::string python;  // that it starts, an absolute path
  bool is_there = false;
  bool is_own = false;  // of the environment that is looked at, whatever links lead there
};

/// NVIDIA's OpenCL, and the files (ICD) by which OpenCL's loaders find it.
struct OpenClFiles {
  std::string library;                  // libnvidia-opencl.so.1 of the system; "" none
  std::vector<std::string> icds;        // in /etc/OpenCL/vendors, that name NVIDIA's
  bool conda_loader = false;            // the environment has a loader of conda's
  std::vector<std::string> conda_icds;  // in the environment's own folder for it: all names
  std::string program;                  // in PATH, that computes by OpenCL; "" none
};

struct PythonParts {
  /// Names in folders of packages: "mmcv", "dgl/graphbolt". A folder that is not there has no row.
  Fact<std::map<std::string, std::vector<std::string>, std::less<>>> folders;
  /// "faiss-cpu": its files lie where a package for the GPU has written the same ones.
  Fact<std::vector<std::string>> over_gpu_build;
  /// Locks of PyTorch's extension builds.
  Fact<std::vector<std::string>> build_locks;
  /// Of PATH, or of the package. Unreadable with error 0: no program was recorded.
  Fact<std::string> ninja;
  Fact<std::vector<NotebookKernel>> kernels;
  Fact<OpenClFiles> opencl;
  Fact<bool> amdsmi;  // AMD's module of that name can be imported, as a package or by PYTHONPATH
};

[[nodiscard]] PythonParts collect_python_parts(const Tree& tree,
                                               const Fact<Environment>& environment,
                                               const PythonFacts& python);

}  // namespace berth::doctor
