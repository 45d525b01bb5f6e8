// Which libraries a program here would get, by the loader simulation.
#pragma once

#include <string>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/facts/process.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

/// A library that somebody opens by name.
struct FoundLibrary {
  std::string name;       // "libcuda.so.1"
  std::string path;       // that the loader takes
  std::string resolved;   // all links followed: "/usr/lib/x86_64-linux-gnu/libcuda.so.570.124.06"
  std::string version;    // behind ".so." of the resolved name; "" where it has none there
  std::string by;         // "LD_LIBRARY_PATH", "the loader's cache", …: for people
  bool is_empty = false;  // "file too short": the loader looks no further

  /// One of the toolkit's, for linking only: it fails every call.
  [[nodiscard]] bool is_stub() const {
    return resolved.find("/stubs/") != std::string::npos ||
           path.find("/stubs/") != std::string::npos;
  }
};

struct LibraryFacts {
  Fact<FoundLibrary> cuda;  // libcuda.so.1; absent: no folder of the loader has it
  Fact<FoundLibrary> nvml;  // libnvidia-ml.so.1
  bool by_nix = false;      // the program is Nix's, whose loader knows no folder of the system
};

/// `program`: whose loader search counts; "" any program of the tree.
[[nodiscard]] LibraryFacts collect_libraries(const Tree& tree, const Fact<Environment>& environment,
                                             const std::string& program);

}  // namespace berth::doctor
