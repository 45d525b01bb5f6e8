// The GPU software that programs of the inspected system use: driver, toolkit, libraries and
// frameworks. Plain values; "" means not known.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace berth::model {

struct Software {
  /// NVIDIA's driver and the newest CUDA that it supports.
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
    std::string path;     // "/…/nvidia/cudnn/lib/libcudnn.so.9"
    // Where the library is from: "wheel", "conda", "system" (a package of the distribution or a
    // system folder), or "variable" (LD_LIBRARY_PATH).
    std::string from;
  };
  struct Framework {
    std::string name;     // "PyTorch"
    std::string word;     // the word for `import`: "torch"
    std::string version;  // "2.4.1+cu121"
    std::string build;    // identifies its build: "cu121", "cpu", "jax-cuda12-plugin 0.4.30"
    std::string cuda;     // the CUDA version that it was built with: "12.1"
    std::string path;     // the file that shows its version
    std::string from;     // "wheel", "conda"
  };

  /// nullopt: there is no driver. With an empty version, the version is not known.
  std::optional<Driver> driver;
  std::optional<Toolkit> toolkit;
  std::optional<Rocm> rocm;
  /// nullopt: they could not be read.
  std::optional<std::vector<Library>> cudnn, nccl;
  std::optional<std::vector<Framework>> frameworks;
};

}  // namespace berth::model
