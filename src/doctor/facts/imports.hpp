// What the loader does when the target imports its frameworks: which libraries they get, which they
// miss. By simulation; only files whose content is at hand take part.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/program.hpp"
#include "doctor/facts/python.hpp"

namespace berth::doctor {

/// A library that a package's file links to.
struct LinkedLibrary {
  std::string name;       // "libcublas.so.12"
  std::string needed_by;  // the path of the file that asks for it
  std::string package;    // of which it is a part: "torch", "onnxruntime-gpu", "cupy"
  std::string wheel;      // one of NVIDIA's folders in sys.path that has it; "" none
};
/// A symbol that is wanted of a library, and that the file which is taken for it does not define.
struct MissingSymbol {
  std::string symbol, wanted_by, library;
  std::string taken;   // the file that wins
  std::string by;      // what makes it win: "LD_LIBRARY_PATH"
  std::string should;  // another file of that name that defines it; ""
};
/// "GLIBCXX_3.4.32" of libstdc++.so.6, which the file that is taken does not have.
struct MissingVersion {
  std::string version, wanted_by, taken, by;
};

/// A symbol of PyTorch's that a package's file wants, whoever has it.
struct WantedSymbol {
  std::string symbol, wanted_by, package;
};

/// For which GPUs a package's file was compiled: capabilities, "8.6".
struct PackageCode {
  std::string package, file;
  std::vector<std::string> sass;
  std::string ptx;  // the lowest; "" none
};

/// A file of a package that asks for a stack that may be executed.
struct StackFile {
  std::string package, file;
};

struct ImportFacts {
  /// That the loader does not find, wherever they may lie.
  Fact<std::vector<LinkedLibrary>> libraries;
  /// CUDA's libraries that the files of packages other than PyTorch link to, found or not.
  Fact<std::vector<LinkedLibrary>> links;
  Fact<std::vector<MissingSymbol>> symbols;
  /// PyTorch's own libraries that they link to: "libtorch_cuda_cu.so".
  Fact<std::vector<LinkedLibrary>> torch_links;
  /// Unreadable where of one of the files that are compiled against PyTorch there is no more than
  /// its name; else absent.
  Fact<bool> torch_extensions;
  /// "_scatter_cpu.so" of a package that has no "_scatter_cuda.so" beside it.
  Fact<std::vector<std::string>> processor_halves;
  /// Of c10, in the files of packages that are compiled against PyTorch.
  Fact<std::vector<WantedSymbol>> torch_symbols;
  Fact<std::vector<MissingVersion>> versions;
  /// Of packages other than PyTorch; what cannot be told of a file is not in it.
  Fact<std::vector<PackageCode>> codes;
  Fact<std::vector<StackFile>> executable_stacks;
  /// "2.41": the newest of libc.so.6's own versions, or what the system's release has.
  Fact<std::string> libc;
};

[[nodiscard]] ImportFacts collect_imports(const Tree& tree, const Fact<Environment>& environment,
                                          const PythonFacts& python);

}  // namespace berth::doctor
