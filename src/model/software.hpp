// The GPU software of the examined system: driver, toolkit, libraries and frameworks. Plain values;
// "" means that a value is not known.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace berth::model {

struct Software {
  /// NVIDIA's driver, and the newest CUDA version that it supports.
  struct Driver {
    std::string version, cuda;
  };
  /// The CUDA toolkit that compiles extensions.
  struct Toolkit {
    std::string version, folder, nvcc;
  };
  struct Rocm {
    std::string version, folder;
  };
  struct Library {
    std::string version;  // "9.1.0"
    std::string path;     // such as "/…/nvidia/cudnn/lib/libcudnn.so.9"
    // Where the library comes from: "wheel", "conda", "system" (a package of the distribution, or a
    // system folder), or "variable" (found through LD_LIBRARY_PATH).
    std::string from;
  };
  struct Framework {
    std::string name;     // "PyTorch"
    std::string word;     // the name that Python imports, such as "torch"
    std::string version;  // "2.4.1+cu121"
    // identifies the build, such as "cu121", "cpu" or "jax-cuda12-plugin 0.4.30"
    std::string build;
    std::string cuda;  // the CUDA version for which it was built, such as "12.1"
    std::string path;  // the file from which its version was read
    std::string from;  // where it comes from: "wheel" or "conda"
  };

  /// nullopt means that there is no driver. If there is one of unknown version, its version is "".
  std::optional<Driver> driver;
  std::optional<Toolkit> toolkit;
  std::optional<Rocm> rocm;
  /// nullopt means that these libraries could not be looked for.
  std::optional<std::vector<Library>> cudnn, nccl;
  std::optional<std::vector<Framework>> frameworks;
};

}  // namespace berth::model
