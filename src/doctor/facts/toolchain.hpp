// Compilers used at run time or installation: Numba's NVVM, nvcc with its host compiler, and what
// Triton needs to compile and link its launcher.
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
  std::string version;  // "12.5.82"; "" unknown
};

/// The C compiler named by CC, otherwise gcc in PATH.
struct HostCompiler {
  std::string path;  // links resolved
  int gcc = 0;       // GCC's major version; 0: unknown or not GCC
};

/// The newest gcc that an nvcc accepts, from its header.
struct CompilerLimit {
  std::string header;
  int newest_gcc = 0;
};

/// A function declared by both CUDA's header and the C library, but noexcept only in the latter.
/// nvcc then rejects every file.
struct HeaderClash {
  std::string cuda_header, libc_header;
  std::string function;  // "cospi"
};

struct ToolchainFacts {
  Fact<std::vector<Toolkit>> nvvm;  // in Numba's search order
  Fact<HostCompiler> compiler;
  /// Compiles extensions: the toolkit in CUDA_HOME, otherwise that of nvcc in PATH. Unreadable with
  /// error 0: programs were not recorded, so none is reported as missing.
  Fact<Toolkit> building;
  Fact<CompilerLimit> nvcc;  // absent: no nvcc, or one with its own host compiler
  Fact<HeaderClash> clash;   // absent: none
  /// The ptxas in PATH and its toolkit.
  Fact<Toolkit> ptxas;
  /// Other copies: in wheels, conda, /usr/local/cuda*, and from XLA_FLAGS. Unreadable with error 0:
  /// programs were not recorded, so none is reported as missing.
  Fact<std::vector<std::string>> other_ptxas;
  /// Triton's cache, if it is on a noexec file system; absent: it is not.
  Fact<std::string> cache_without_exec;
  Fact<bool> any_compiler;                     // gcc, clang, cc in PATH, or CC
  Fact<std::string> python_header;             // where Python.h is expected
  Fact<bool> has_python_header;                //
  Fact<std::vector<std::string>> cached_cuda;  // libcuda.so.1 in the loader's cache
  Fact<bool> links_cuda;  // libcuda.so is next to them for the linker; unreadable: no cache
};

}  // namespace berth::doctor
