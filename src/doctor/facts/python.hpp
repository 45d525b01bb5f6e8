// The Python that a program would run in, read from outside: nothing of it is imported or executed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

/// Why a folder is in sys.path.
enum class PathOrigin : unsigned char {
  kOwn,   // the interpreter's or the environment's site-packages
  kUser,  // ~/.local
  kPythonPath,
  kPth,
};
struct PathEntry {
  std::string folder;
  PathOrigin origin = PathOrigin::kOwn;
};

/// What pip calls a distribution: a dist-info or egg-info.
struct Distribution {
  std::string name;                // as PEP 503 compares: lower case, "-"
  std::string version;             // "2.4.0+cu121"
  std::string path;                // of its dist-info
  std::size_t entry = 0;           // in PythonFacts::path
  std::vector<std::string> needs;  // Requires-Dist; read of a few alone
  std::string url;                 // where it was installed from, where that is known and matters
};

struct CondaPackage {
  std::string name, version, build, path;
};

/// torch/version.py, of the torch that `import torch` would find.
struct TorchBuild {
  std::string path;  // of version.py
  std::size_t entry = 0;
  std::string version;
  Fact<std::string> cuda, hip, xpu;  // absent: built without
};

/// One of NVIDIA's (or a framework's) libraries.
struct CudaLibrary {
  std::string name;     // "libcudnn.so.9"
  std::string folder;   //
  std::string version;  // behind ".so." where the link ends: "9.22.0"; "" not told
  enum class From : unsigned char { kVariable, kWheel, kConda, kSystem } from = From::kSystem;

  [[nodiscard]] std::string path() const { return folder + "/" + name; }
};

/// For which GPUs PyTorch was compiled: capabilities, "8.7".
struct TorchCode {
  std::string file;
  std::vector<std::string> sass;
  std::string ptx;  // the lowest; "" none
};

/// A pip that a shell would run, and that installs for another Python.
struct OtherPip {
  std::string path;                     // of its script
  std::string interpreter;              // that its first line names
  std::string version;                  // of that: "3.8"
  std::vector<std::string> frameworks;  // that are installed there, and not here: dist-info folders
};

/// A copy of a runtime of OpenMP: GNU's, or Intel's and LLVM's, which are one.
struct OpenMp {
  std::string path;  // after links
  bool gnu = false;
};

/// VIRTUAL_ENV or CONDA_PREFIX, and nothing that can run is there.
struct LostEnvironment {
  std::string variable, prefix;
  std::string interpreter;  // the link of its Python; "" the folder itself is not there
  std::string leads_to;     // where that link ends, and nothing is
};

struct PythonFacts {
  Fact<std::string> interpreter;  // its path; absent: there is no Python
  Fact<std::string> version;      // "3.11"
  std::string release;            // "3.11.2", as far as files tell
  std::string prefix;             // the folder of the environment or installation
  std::string base;               // of the installation that a venv was made from; else the same
  bool is_venv = false, is_conda = false, has_uv = false;
  bool is_externally_managed = false;             // a distribution's: pip would refuse
  Fact<std::string> machine;                      // "x86_64", "aarch64"
  Fact<std::vector<PathEntry>> path;              // sys.path without the standard library
  Fact<std::vector<Distribution>> distributions;  // in the order of sys.path
  Fact<std::vector<CondaPackage>> conda;          // absent: no conda environment
  Fact<TorchBuild> torch;
  Fact<TorchCode> torch_code;                      // of a build whose release does not tell it
  Fact<std::vector<std::string>> torch_modules;    // "_C.cpython-312-x86_64-linux-gnu.so"
  Fact<std::vector<std::string>> torch_libraries;  // names in torch/lib
  Fact<std::vector<CudaLibrary>> libraries;        // where wheels, conda and the loader have them
  Fact<std::vector<std::string>> libdevice;        // folders of a toolkit with libdevice.10.bc
  /// What pip's list says that the wheels of cuDNN brought: "libcudnn.so.9". Absent: no list.
  Fact<std::vector<std::string>> cudnn_listed;
  Fact<std::vector<std::string>> bitsandbytes;  // its binaries, "libbitsandbytes_cuda124.so"
  /// Where a variable, or the toolkit's usual place, has a libcudart.so of just that name.
  Fact<std::string> bitsandbytes_runtime;
  Fact<std::vector<std::string>> llama_cpp;        // its libraries: "libggml-cpu.so"
  Fact<std::vector<std::string>> llama_cpp_links;  // what its one library before 0.3 links to

  Fact<std::vector<OpenMp>> openmp;  // in wheels and in the environment's lib

  Fact<OtherPip> other_pip;  // absent: pip installs for this Python
  Fact<LostEnvironment> lost_environment;

  /// The first of that name in sys.path, which import takes.
  [[nodiscard]] Fact<Distribution> distribution(std::string_view name) const;
  /// A build of PyTorch's own: the wheels of its index, or the packages of its conda channel
  /// ("py3.7_cuda10.1.243_cudnn7.6.3_0"). Its release tells what is in it.
  [[nodiscard]] bool has_pytorchs_own_build() const;
};

/// The interpreter that `berth doctor` means without options: VIRTUAL_ENV, CONDA_PREFIX, python3 on
/// PATH; "" none.
[[nodiscard]] std::string default_python(const Tree& tree, const Fact<Environment>& environment);
/// What it takes for PATH where that is not set.
inline constexpr const char* kUsualPath = "/usr/local/bin:/usr/bin:/bin";
/// What kept it from looking everywhere: then that it found none says nothing.
[[nodiscard]] std::optional<Unreadable> why_not_searched(const Tree& tree,
                                                         const Fact<Environment>& environment);
/// Of a Python that may be there and could not be found.
[[nodiscard]] PythonFacts unreadable_python(const Unreadable& why);
/// `program` where it is a Python (of the active environment, if that runs it too); "" it is
/// another.
[[nodiscard]] std::string python_of_program(const Tree& tree, const Fact<Environment>& environment,
                                            const std::string& program);
/// An active environment whose folder or Python is not there; absent: none.
[[nodiscard]] Fact<LostEnvironment> collect_lost_environment(const Tree& tree,
                                                             const Fact<Environment>& environment,
                                                             bool recorded);
/// Why `path` is no Python that a person can mean, a sentence; "" it is one. `recorded`: files of a
/// bundle, which has packages and hardly ever a program; so above.
[[nodiscard]] std::string why_no_python(const Tree& tree, const std::string& path, bool recorded);
/// Names of conda's environments, as far as they can be found.
[[nodiscard]] std::vector<std::string> conda_names(const Tree& tree,
                                                   const Fact<Environment>& environment);
/// Of a conda environment by its name or folder; "" none.
[[nodiscard]] std::string conda_python(const Tree& tree, const Fact<Environment>& environment,
                                       const std::string& name);
[[nodiscard]] PythonFacts collect_python(const Tree& tree, const Fact<Environment>& environment,
                                         const std::string& interpreter);
/// What NVIDIA's kernel module calls its GPUs: "NVIDIA GeForce RTX 3090".
[[nodiscard]] Fact<std::vector<std::string>> collect_gpu_models(const Tree& tree);

}  // namespace berth::doctor
