// Pairs of packages that need compatible releases, and packages that need libraries of another
// package (data/compat.toml, pairs and opens).
#pragma once

#include <string>
#include <vector>

namespace berth::doctor {

/// Two packages whose releases may be incompatible. One column shows which releases of the package
/// `with` fail: those in `bad`, those not in `good`, or, if `same` is "release" or "minor", those
/// whose number differs from that of `package`. If all three columns are empty, the requirements in
/// the metadata of `package` decide. `what`: msgid; `use`: what to install, or "" to derive it from
/// the rows; `unless`: a variable that avoids the conflict, "NAME=VALUE", or "NAME" with any value.
struct PackagePair {
  std::string package, versions, with, bad, good, what, use, source, same, unless;
};
/// An unmaintained package and its successor.
struct Successor {
  std::string package, use, source;
};
/// Libraries that a package opens by name. `use`: the packages to install. `with`: a newer library
/// for which the release in `use` is compiled.
struct Opens {
  std::string package, versions;
  std::vector<std::string> libraries;
  std::string use, with, source;
  std::string cuda;  // the CUDA version of the libraries; "" if unknown
  /// The package opens "libcudnn.so" without a version number. This file can be missing although
  /// libcudnn.so.8 exists.
  bool without_number = false;
  bool x86_only = false;  // only its x86_64 wheels use a GPU; its aarch64 wheels are CPU-only
};

}  // namespace berth::doctor
