// What packages need besides their own files: compatible releases of other packages, and libraries
// (data/compat.toml, pairs and opens).
#pragma once

#include <string>
#include <vector>

namespace berth::doctor {

/// Two packages with incompatible releases. Of the other package, the `bad` releases fail, or all
/// but the `good` ones, or all with a different number (`same`: "release", "minor"). Without these,
/// the first package's metadata decides, and it refuses other releases. `what` is a msgid; `use`:
/// what to install, "": derived from the rows; `unless`: a variable that makes them compatible,
/// "NAME=VALUE", or "NAME" with any value.
struct PackagePair {
  std::string package, versions, with, bad, good, what, use, source, same, unless;
};
/// An unmaintained package and its successor.
struct Successor {
  std::string package, use, source;
};
/// Libraries that a package opens by name. If the package `with` is installed, `use` is the package
/// that has them.
struct Opens {
  std::string package, versions;
  std::vector<std::string> libraries;
  std::string use, with, source;
  std::string cuda;             // the CUDA version of the libraries; "" unknown
  bool without_number = false;  // "libcudnn.so", which is not the same file as libcudnn.so.8
  bool x86_only = false;        // its aarch64 wheels are CPU-only
};

}  // namespace berth::doctor
