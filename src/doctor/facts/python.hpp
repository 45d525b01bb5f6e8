// The Python that a program would use, examined from its files: nothing is imported or executed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts/fact.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

/// Why a folder is in sys.path.
enum class PathOrigin : unsigned char {
  kOwn,   // site-packages of the interpreter or of the environment
  kUser,  // ~/.local
  kPythonPath,
  kPth,
};
struct PathEntry {
  std::string folder;
  PathOrigin origin = PathOrigin::kOwn;
};

/// A distribution in pip's sense: a dist-info or egg-info folder.
struct Distribution {
  std::string name;                // name normalized as in PEP 503: lower case, "-"
  std::string version;             // "2.4.0+cu121"
  std::string path;                // path of its dist-info folder
  std::size_t entry = 0;           // index in PythonFacts::path
  std::vector<std::string> needs;  // Requires-Dist; only read for some packages
  std::string url;  // where the distribution was installed from, if known and relevant
};

struct CondaPackage {
  std::string name, version, build, path;
};

/// torch/version.py of the torch that `import torch` would find.
struct TorchBuild {
  std::string path;  // path of version.py
  std::size_t entry = 0;
  std::string version;
  Fact<std::string> cuda, hip, xpu;  // absent: built without support for this platform
};

/// A library of CUDA, from NVIDIA's packages or from those of a framework.
struct CudaLibrary {
  std::string name;     // "libcudnn.so.9"
  std::string folder;   //
  std::string version;  // the version after ".so." in the link's target: "9.22.0"; empty if unknown
  enum class From : unsigned char { kVariable, kWheel, kConda, kSystem } from = From::kSystem;

  [[nodiscard]] std::string path() const { return folder + "/" + name; }
};

/// The compute capabilities that PyTorch was compiled for: "8.7".
struct TorchCode {
  std::string file;
  std::vector<std::string> sass;
  std::string ptx;  // the lowest capability that has PTX code; empty if there is none
};

/// The pip in PATH, if it installs packages for another Python than that of the target.
struct OtherPip {
  std::string path;         // path of pip's script
  std::string interpreter;  // the interpreter in the script's first line
  std::string version;      // version of that Python: "3.8"
  std::vector<std::string>
      frameworks;  // frameworks that are installed for that Python, but not for the target's Python
};

/// A copy of an OpenMP runtime: GNU's, or the one that Intel and LLVM share.
struct OpenMp {
  std::string path;  // path with all links resolved
  bool gnu = false;
};

/// An environment that VIRTUAL_ENV or CONDA_PREFIX names, and that has no working Python.
struct LostEnvironment {
  std::string variable, prefix;
  std::string interpreter;  // the path of its Python, which is a link; "" if the folder is missing
  std::string leads_to;     // the link's missing target
};

struct PythonFacts {
  Fact<std::string> interpreter;  // path of the interpreter; absent: no Python
  Fact<std::string> version;      // "3.11"
  std::string release;            // "3.11.2", or "3.11" if its files do not have the patch number
  std::string prefix;             // folder of the environment or the installation
  std::string base;  // the installation from which a venv was created; otherwise equal to `prefix`
  bool is_venv = false, is_conda = false, has_uv = false;
  bool is_externally_managed =
      false;                          // managed by the distribution, so pip would refuse to install
  Fact<std::string> machine;          // CPU architecture: "x86_64", "aarch64"
  Fact<std::vector<PathEntry>> path;  // entries of sys.path, without the standard library
  Fact<std::vector<Distribution>> distributions;  // all distributions, in the order of sys.path
  Fact<std::vector<CondaPackage>> conda;  // packages of conda; absent: this is no conda environment
  Fact<TorchBuild> torch;
  Fact<TorchCode> torch_code;  // read only if the release does not determine the capabilities
  // extension modules: "_C.cpython-312-x86_64-linux-gnu.so"
  Fact<std::vector<std::string>> torch_modules;
  Fact<std::vector<std::string>> torch_libraries;  // names in torch/lib
  Fact<std::vector<CudaLibrary>>
      libraries;  // CUDA libraries in wheels, in conda and in the loader's folders
  Fact<std::vector<std::string>> libdevice;  // toolkit folders that contain libdevice.10.bc
  /// The cuDNN libraries that the RECORD file of their wheel names: "libcudnn.so.9". Absent: there
  /// is no RECORD.
  Fact<std::vector<std::string>> cudnn_listed;
  // libraries of bitsandbytes: "libbitsandbytes_cuda124.so"
  Fact<std::vector<std::string>> bitsandbytes;
  /// Path of a file with exactly the name libcudart.so, in a folder that a variable names or in the
  /// toolkit's default folder.
  Fact<std::string> bitsandbytes_runtime;
  Fact<std::vector<std::string>> llama_cpp;  // libraries of llama-cpp-python: "libggml-cpu.so"
  /// Libraries that the single library of llama-cpp-python links to; only for versions before 0.3.
  Fact<std::vector<std::string>> llama_cpp_links;

  Fact<std::vector<OpenMp>>
      openmp;  // OpenMP libraries in wheels and in the environment's lib folder

  Fact<OtherPip> other_pip;  // absent: the pip in PATH installs for this Python
  Fact<LostEnvironment> lost_environment;

  /// The first distribution with this name in sys.path, which is the one that Python imports.
  [[nodiscard]] Fact<Distribution> distribution(std::string_view name) const;
  /// True if torch is one of PyTorch's own builds, from its wheel index or its conda channel
  /// ("py3.7_cuda10.1.243_cudnn7.6.3_0"). The release then determines what the build contains.
  [[nodiscard]] bool has_pytorchs_own_build() const;
};

/// The default PATH of a shell.
inline constexpr const char* kUsualPath = "/usr/local/bin:/usr/bin:/bin";
/// Python facts that are all unreadable: a Python may exist, but it is unknown which one.
[[nodiscard]] PythonFacts unreadable_python(const Unreadable& why);

}  // namespace berth::doctor
