// Recipes: which build of a framework runs on this driver, these GPUs and this Python, proven by
// the compatibility data; and where there is none, what would have to change. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/builds.hpp"

namespace berth::doctor {

/// The machine that a recipe is for. What is "" is not known and keeps nothing out.
struct Wish {
  Framework framework = Framework::kTorch;
  Platform platform = Platform::kNvidia;
  std::string python;                     // "3.11"
  std::string driver, driver_cuda;        // "535.54.03", "12.2"
  std::vector<std::string> capabilities;  // of all GPUs; "" among them: not known
  bool aarch64 = false;
  bool planned = false;           // another machine's: nothing shows that its driver runs its GPUs
  bool pypi_only = false;         // packages come from a mirror of PyPI, which has no other builds,
  std::vector<std::string> tags;  // but for these, which another configured index has
  bool tags_only = false;         // and PyPI's own are not there
  bool no_toolkit = false;        // an image without one
  std::string keep;               // the release to stay with, if one of its builds will do
};

struct Recipe {
  Build build;
  std::vector<std::string> packages;  // the build's, and pins that it needs
  std::string driver;                 // the lowest that will do; "" on the CPU
  bool by_ptx = false;                // the driver compiles its kernels
};

[[nodiscard]] std::optional<Recipe> recipe_for(const Compatibility& known, const Wish& wish);

/// What alone would bring a recipe where there is none. All empty: nothing does but the CPU.
struct Changes {
  std::string driver;                // to this or a newer one
  bool driver_too_new = false;       // its branch has left out the GPU
  int last_branch = 0;               // then: the last that has not
  std::vector<std::string> pythons;  // to one of these, newest first
  bool both = false;                 // driver and Python, not either
  bool another_index = false;        // there is one outside of PyPI
};
[[nodiscard]] Changes changes_for(const Compatibility& known, const Wish& wish);

}  // namespace berth::doctor
