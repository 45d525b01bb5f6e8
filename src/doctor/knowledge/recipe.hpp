// Recipes: the build of a framework that runs on this driver, these GPUs and this Python, as the
// compatibility data proves. If there is none, what would have to change. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/knowledge/builds.hpp"

namespace berth::doctor {

/// The machine that a recipe is for. "" means unknown and excludes nothing.
struct Wish {
  Framework framework = Framework::kTorch;
  Platform platform = Platform::kNvidia;
  std::string python;                     // "3.11"
  std::string driver, driver_cuda;        // "535.54.03", "12.2"
  std::vector<std::string> capabilities;  // of all GPUs; "" for an unknown one
  bool aarch64 = false;
  bool planned = false;           // another machine, so its driver is not known to support its GPUs
  bool pypi_only = false;         // packages come from a mirror of PyPI, which has no other builds
  std::vector<std::string> tags;  // except these, from another configured index
  bool tags_only = false;         // and PyPI's own builds are unavailable
  bool no_toolkit = false;        // a container image without a toolkit
  std::string keep;               // the release to keep if one of its builds works
  int cuda_major = 0;             // only builds of this CUDA major; 0: any
};

struct Recipe {
  Build build;
  std::vector<std::string> packages;  // the build's, with required pins
  std::string driver;                 // lowest version; "" on the CPU
  bool by_ptx = false;                // the driver compiles its kernels from PTX
};

[[nodiscard]] std::optional<Recipe> recipe_for(const Compatibility& known, const Wish& wish);

/// Why two builds cannot be in one environment.
enum class Clash : unsigned char {
  kNone,
  kCudaMajor,  // the CUDA packages of two majors have files of the same name
  kCudnn,      // no release of cuDNN suits both
  kPins,       // each requires its own exact version of the same CUDA packages
};
/// `capabilities`: of the GPUs, which can limit cuDNN.
[[nodiscard]] Clash clash_of(const Compatibility& known, Framework one, const Build& build,
                             Framework other, const Build& others,
                             const std::vector<std::string>& capabilities = {});

/// Single changes that would allow a recipe if there is none. All empty: only the CPU works.
struct Changes {
  std::string driver;                // to this version or newer
  bool driver_too_new = false;       // its branch no longer supports the GPU
  int last_branch = 0;               // then: the last branch that does
  std::vector<std::string> pythons;  // to one of these, newest first
  bool both = false;                 // driver and Python must both change
  bool another_index = false;        // a build exists outside PyPI
};
[[nodiscard]] Changes changes_for(const Compatibility& known, const Wish& wish);

}  // namespace berth::doctor
