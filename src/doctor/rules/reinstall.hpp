// Fixes that reinstall a framework with the recipe that fits the machine according to the
// compatibility data. `berth env --format pip` prints the same recipe.
#pragma once

#include <optional>
#include <string>

#include "doctor/knowledge/recipe.hpp"
#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// The wish for a recipe for this machine with its driver, all its GPUs and this Python. `keep` is
/// the release to keep if possible.
[[nodiscard]] Wish wish_of(Examination& look, Framework framework, const std::string& keep = "");
/// Adds a fix that reinstalls the framework. Returns false, without a fix, if there is no recipe.
bool add_reinstall(Examination& look, model::Finding& finding, const Wish& wish);
/// Installs `words` from PyTorch's index for builds with that tag; for "", from the index that pip
/// or uv is configured with. Uses PyTorch's own index only without a configured mirror. If a mirror
/// may lack the builds, the fix says so.
[[nodiscard]] model::Fix torch_install(Examination& look, const std::vector<std::string>& words,
                                       const std::string& tag, const std::string& says);

/// The PyTorch that NVIDIA builds for this Jetson's release. Wheels from PyPI and PyTorch's index
/// do not work there. nullopt if this is not a Jetson.
[[nodiscard]] std::optional<model::Fix> jetson_torch(const Compatibility& known,
                                                     const Facts& facts);

}  // namespace berth::doctor
