// What compiles for a GPU while a program runs or is installed: Numba's NVVM, nvcc with the
// compiler of the host behind it, and what Triton compiles and links its launcher with.
#pragma once

#include <string>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/facts/python.hpp"

namespace berth::doctor {

/// A CUDA toolkit that has NVVM.
struct Toolkit {
  enum class From : unsigned char { kConda, kWheel, kVariable, kSystem } from = From::kSystem;
  std::string folder;
  std::string version;  // "12.5.82"; "" not told
};

/// The C compiler that CC names, else gcc of PATH.
struct HostCompiler {
  std::string path;  // after links
  int gcc = 0;       // its major version; 0: not known, or none of GNU's
};

/// The newest gcc that an nvcc takes, as its header says.
struct CompilerLimit {
  std::string header;
  int newest_gcc = 0;
};

/// A function that CUDA's header and the C library's both declare, and only the latter as one that
/// does not throw: nvcc refuses every file.
struct HeaderClash {
  std::string cuda_header, libc_header;
  std::string function;  // "cospi"
};

struct ToolchainFacts {
  Fact<std::vector<Toolkit>> nvvm;  // in the order in which Numba looks for them
  Fact<HostCompiler> compiler;
  /// That extensions are compiled with: CUDA_HOME's, else that of nvcc in PATH. Unreadable with
  /// error 0: no program was recorded, so that none is missed.
  Fact<Toolkit> building;
  Fact<CompilerLimit> nvcc;  // absent: no nvcc, or one that brings its own compiler
  Fact<HeaderClash> clash;   // absent: none
  /// The assembler that programs find by PATH, with the toolkit around it.
  Fact<Toolkit> ptxas;
  /// Others: of wheels, of conda, of /usr/local/cuda*, and where XLA_FLAGS points. Unreadable with
  /// error 0: no program was recorded, so that none is missed.
  Fact<std::vector<std::string>> other_ptxas;
  /// Where Triton keeps what it has compiled, on a file system from which nothing may be run;
  /// absent: there is none.
  Fact<std::string> cache_without_exec;
  Fact<bool> any_compiler;                     // gcc, clang, cc in PATH, or CC
  Fact<std::string> python_header;             // where Python.h should be
  Fact<bool> has_python_header;                //
  Fact<std::vector<std::string>> cached_cuda;  // libcuda.so.1 of the loader's cache
  Fact<bool> links_cuda;  // the linker finds libcuda.so beside them; unreadable: no cache is there
};

[[nodiscard]] ToolchainFacts collect_toolchain(const Tree& tree,
                                               const Fact<Environment>& environment,
                                               const PythonFacts& python);

}  // namespace berth::doctor
