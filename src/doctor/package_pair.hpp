// What packages want beside them: other packages, of which some releases do not go together with
// them, and libraries (data/compat.toml, pairs and opens).
#pragma once

#include <string>
#include <vector>

namespace berth::doctor {

/// Two packages of which some releases do not go together: `bad` ones of the other, all but the
/// `good` ones, or all but one of the `same` number ("release", "minor"); none of them: what the
/// first requires in its metadata, and refuses to do without. `what` is a msgid; `use`: what to
/// install, "" follows from the rows; `unless`: a variable that lets them go together,
/// "NAME=VALUE", or "NAME" with any value.
struct PackagePair {
  std::string package, versions, with, bad, good, what, use, source, same, unless;
};
/// A package that nobody makes any more, and what has taken its place.
struct Successor {
  std::string package, use, source;
};
/// Libraries that a package opens by name; where `with` is there, `use` is the package for it.
struct Opens {
  std::string package, versions;
  std::vector<std::string> libraries;
  std::string use, with, source;
  std::string cuda;             // whose libraries they are; "" not told
  bool without_number = false;  // "libcudnn.so", which is another file than libcudnn.so.8
  bool x86_only = false;        // its wheels for aarch64 are for the processor
};

}  // namespace berth::doctor
