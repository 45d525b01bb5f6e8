// Compilers that programs use while they run or are installed: Numba's NVVM, nvcc with its host
// compiler, and the compiler and libraries that Triton needs for its launcher.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/fact.hpp"
#include "doctor/facts/python.hpp"

namespace berth::doctor {

/// A CUDA toolkit that has NVVM.
struct Toolkit {
  enum class From : unsigned char { kConda, kWheel, kVariable, kSystem } from = From::kSystem;
  std::string folder;
  std::string version;  // "12.5.82"; empty if unknown
};

/// The C compiler that CC names. If CC is not set, the gcc in PATH.
struct HostCompiler {
  std::string path;  // path with all links resolved
  int gcc = 0;       // major version of GCC; 0: unknown, or the compiler is not GCC
};

/// The newest gcc that an nvcc accepts, according to a header of its toolkit.
struct CompilerLimit {
  std::string header;
  int newest_gcc = 0;
};

/// A function that both CUDA's header and the C library's header declare. Only the C library's
/// declaration has noexcept, so nvcc rejects every file.
struct HeaderClash {
  std::string cuda_header, libc_header;
  std::string function;  // "cospi"
};

struct ToolchainFacts {
  Fact<std::vector<Toolkit>> nvvm;  // toolkits in the order in which Numba searches them
  Fact<HostCompiler> compiler;
  /// The toolkit that compiles extensions: the one in CUDA_HOME, or else that of the nvcc in PATH.
  /// Unreadable with error 0: programs were not recorded, so a missing toolkit proves nothing.
  Fact<Toolkit> building;
  /// Absent: there is no nvcc, or the user or the distribution chose its host compiler.
  Fact<CompilerLimit> nvcc;
  Fact<HeaderClash> clash;  // absent: no function clashes
  /// The toolkit of the ptxas in PATH.
  Fact<Toolkit> ptxas;
  /// Other copies of ptxas: in wheels, conda, /usr/local/cuda*, and the folder in XLA_FLAGS.
  /// Unreadable with error 0: programs were not recorded, so a missing ptxas proves nothing.
  Fact<std::vector<std::string>> other_ptxas;
  /// The folder of Triton's cache, if its file system is mounted noexec; otherwise absent.
  Fact<std::string> cache_without_exec;
  Fact<bool> any_compiler;          // whether gcc, clang or cc is in PATH, or CC names a compiler
  Fact<std::string> python_header;  // the path where Python.h is expected
  Fact<bool> has_python_header;
  Fact<std::vector<std::string>> cached_cuda;  // paths of libcuda.so.1 in the loader's cache
  /// Whether the linker would find a libcuda.so. Unreadable: neither a loader cache nor `ld` was
  /// recorded.
  Fact<bool> links_cuda;
};

}  // namespace berth::doctor
