// Which libraries a program on this machine would load, according to the loader simulation.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/fact.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

/// A library that a program opens by name, and the file that the loader chooses for it.
struct FoundLibrary {
  std::string name;  // "libcuda.so.1"
  std::string path;  // the file that the loader chooses
  // path with all links resolved: "/usr/lib/x86_64-linux-gnu/libcuda.so.570.124.06"
  std::string resolved;
  std::string version;  // the version after ".so." in the resolved name; empty if there is none
  std::string by;  // how the loader finds it, in words: "LD_LIBRARY_PATH", "the loader's cache", …
  /// The file is empty: the loader reports "file too short" and stops.
  bool is_empty = false;

  /// Whether the file is one of the toolkit's stub libraries. They are only for linking: every call
  /// fails.
  [[nodiscard]] bool is_stub() const {
    return resolved.find("/stubs/") != std::string::npos ||
           path.find("/stubs/") != std::string::npos;
  }
};

struct LibraryFacts {
  Fact<FoundLibrary> cuda;  // libcuda.so.1; absent: it is not in the loader's folders
  Fact<FoundLibrary> nvml;  // libnvidia-ml.so.1
  bool by_nix = false;      // the program is from Nix, whose loader ignores the system's folders
};

}  // namespace berth::doctor
