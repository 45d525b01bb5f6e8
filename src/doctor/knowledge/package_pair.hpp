// What packages need besides their own files: compatible releases of other packages, and libraries
// (data/compat.toml, pairs and opens).
#pragma once

#include <string>
#include <vector>

namespace berth::doctor {

/// Two packages whose releases may be incompatible. One of these columns shows which releases of
/// the package `with` fail: those in `bad`, all that are not in `good`, or all whose number differs
/// from that of `package` (`same`: "release" or "minor"). If all three are empty, the requirements
/// in the metadata of `package` decide. `what`: msgid; `use`: what to install, or "" to derive it
/// from the rows; `unless`: a variable that avoids the conflict, "NAME=VALUE", or "NAME" with any
/// value.
struct PackagePair {
  std::string package, versions, with, bad, good, what, use, source, same, unless;
};
/// An unmaintained package and its successor.
struct Successor {
  std::string package, use, source;
};
/// Libraries that a package opens by name. If the package `with` is installed, `use` is the package
/// that contains these libraries.
struct Opens {
  std::string package, versions;
  std::vector<std::string> libraries;
  std::string use, with, source;
  std::string cuda;  // the CUDA version of the libraries; "" unknown
  /// Opens "libcudnn.so", which can be missing although libcudnn.so.8 exists.
  bool without_number = false;
  bool x86_only = false;  // only its x86_64 wheels use a GPU; its aarch64 wheels are CPU-only
};

}  // namespace berth::doctor
