// Fixes that reinstall a framework by the recipe for this machine. `berth env --format pip` prints
// the same recipe.
#pragma once

#include <optional>
#include <string>

#include "doctor/knowledge/recipe.hpp"
#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// The request for a recipe for this machine, with its driver, all its GPUs and this Python. `keep`
/// is the release to keep if possible.
[[nodiscard]] Wish wish_of(Examination& look, Framework framework, const std::string& keep = "");
/// Adds a fix that reinstalls the framework. Returns false, without a fix, if there is no recipe.
bool add_reinstall(Examination& look, model::Finding& finding, const Wish& wish);
/// A fix that installs `words`. With a `tag`, they come from PyTorch's index for that build, or
/// from a configured mirror. Without a tag, they come from the index that pip or uv is configured
/// to use. If the mirror may not have the builds, the fix says so.
[[nodiscard]] model::Fix torch_install(Examination& look, const std::vector<std::string>& words,
                                       const std::string& tag, const std::string& says);

/// A fix that installs the PyTorch that NVIDIA builds for the release of this Jetson. Wheels from
/// PyPI and from PyTorch's index do not work on a Jetson. nullopt if this is not a Jetson.
[[nodiscard]] std::optional<model::Fix> jetson_torch(const Compatibility& known,
                                                     const Facts& facts);

}  // namespace berth::doctor
