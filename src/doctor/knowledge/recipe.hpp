// Recipes: the build of a framework that, according to the compatibility data, runs with this
// driver, these GPUs and this Python. If there is none, Changes describes what would have to
// change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/knowledge/builds.hpp"

namespace berth::doctor {

/// The machine and the framework for which to find a recipe. "" means unknown and excludes nothing.
struct Wish {
  Framework framework = Framework::kTorch;
  Platform platform = Platform::kNvidia;
  std::string python;                     // "3.11"
  std::string driver, driver_cuda;        // "535.54.03", "12.2"
  std::vector<std::string> capabilities;  // compute capabilities of all GPUs; "" for an unknown one
  bool aarch64 = false;
  bool planned =
      false;  // the recipe is for another machine, so the driver must be checked against its GPUs
  bool pypi_only = false;  // packages come from a mirror of PyPI, which has no other builds
  // names of PyTorch's builds ("cu126") in another index that is configured
  std::vector<std::string> tags;
  // the builds in `tags` are the only available ones; there are none from PyPI
  bool tags_only = false;
  bool no_toolkit = false;  // the recipe is for a container image without a CUDA toolkit
  std::string keep;    // the installed release, to keep if one of its builds works on the machine
  int cuda_major = 0;  // if not 0: only builds for this CUDA major version
};

struct Recipe {
  Build build;
  std::vector<std::string> packages;  // packages to install: the build, and the pins that it needs
  std::string driver;                 // lowest driver version; "" for the CPU
  bool by_ptx = false;                // the driver compiles the build's kernels from PTX
};

[[nodiscard]] std::optional<Recipe> recipe_for(const Compatibility& known, const Wish& wish);

/// Why two builds cannot be in one environment.
enum class Clash : unsigned char {
  kNone,
  kCudaMajor,  // the CUDA packages of two major versions install files with the same names
  kCudnn,      // no release of cuDNN works with both
  kPins,       // both builds require exact, but different, versions of the same CUDA packages
};
/// Why two builds cannot be in one environment. `build` is a build of `one`, and `others` is a
/// build of `other`. `capabilities` are those of the GPUs, which can limit the choice of cuDNN.
[[nodiscard]] Clash clash_of(const Compatibility& known, Framework one, const Build& build,
                             Framework other, const Build& others,
                             const std::vector<std::string>& capabilities = {});

/// Changes to the machine. Each single change would make a recipe possible. If no member is set,
/// only the CPU can be used.
struct Changes {
  std::string driver;                // update the driver to this version or newer
  bool driver_too_new = false;       // the driver's branch no longer supports the GPU
  int last_branch = 0;               // if `driver_too_new`: the last branch that supports the GPU
  std::vector<std::string> pythons;  // use one of these Python versions, newest first
  bool both = false;                 // the driver and Python must both change
  // a build exists, but not on PyPI, so another package index is needed
  bool another_index = false;
};
[[nodiscard]] Changes changes_for(const Compatibility& known, const Wish& wish);

}  // namespace berth::doctor
