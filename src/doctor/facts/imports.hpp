// Which libraries the target's frameworks would load, and which are missing, according to a
// simulation of the loader. It considers only files whose content is available.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/program.hpp"
#include "doctor/facts/python.hpp"

namespace berth::doctor {

/// A library that a package's file links to.
struct LinkedLibrary {
  std::string name;       // "libcublas.so.12"
  std::string needed_by;  // path of the file that needs it
  // the package that contains the file `needed_by`: "torch", "onnxruntime-gpu", "cupy"
  std::string package;
  std::string wheel;  // the NVIDIA folder in sys.path with this library; empty if there is none
};
/// A symbol that a file needs, but that the library chosen by the loader does not define.
struct MissingSymbol {
  std::string symbol, wanted_by, library;
  std::string taken;  // the library that the loader chooses
  std::string by;     // why the loader chooses it: "LD_LIBRARY_PATH"
  // another library with the same name that defines the symbol; empty if there is none
  std::string should;
};
/// A symbol version that a file needs and the chosen library lacks: "GLIBCXX_3.4.32" of
/// libstdc++.so.6.
struct MissingVersion {
  std::string version, wanted_by, taken, by;
};

/// A PyTorch symbol that a package's file needs, whether PyTorch defines it or not.
struct WantedSymbol {
  std::string symbol, wanted_by, package;
};

/// The compute capabilities that a package's file was compiled for: "8.6".
struct PackageCode {
  std::string package, file;
  std::vector<std::string> sass;
  std::string ptx;  // the lowest capability that has PTX code; empty if there is none
};

/// A package's file that requires an executable stack.
struct StackFile {
  std::string package, file;
};

struct ImportFacts {
  /// Libraries that packages need and that the loader does not find.
  Fact<std::vector<LinkedLibrary>> libraries;
  /// CUDA libraries that packages other than PyTorch link to, whether found or not.
  Fact<std::vector<LinkedLibrary>> links;
  Fact<std::vector<MissingSymbol>> symbols;
  /// PyTorch's own libraries that other packages link to: "libtorch_cuda_cu.so".
  Fact<std::vector<LinkedLibrary>> torch_links;
  /// This fact never has a value. It is unreadable if the content of a file compiled against
  /// PyTorch could not be read, so that `symbols` may be incomplete. Otherwise it is absent.
  Fact<bool> torch_extensions;
  /// CPU libraries in packages that do not have the matching GPU library: "_scatter_cpu.so" without
  /// "_scatter_cuda.so".
  Fact<std::vector<std::string>> processor_halves;
  /// Symbols of PyTorch's library c10 that packages compiled against PyTorch need.
  Fact<std::vector<WantedSymbol>> torch_symbols;
  Fact<std::vector<MissingVersion>> versions;
  /// GPU code in packages other than PyTorch. Files whose target GPUs are unknown are left out.
  Fact<std::vector<PackageCode>> codes;
  Fact<std::vector<StackFile>> executable_stacks;
  /// The newest symbol version in libc.so.6: "2.41". If libc.so.6 is missing, the version that
  /// belongs to the system's release.
  Fact<std::string> libc;
};

}  // namespace berth::doctor
