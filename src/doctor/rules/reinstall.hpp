// Fixes that reinstall a framework with the recipe that the compatibility data proves for the
// machine, as `berth env --format pip` prints it.
#pragma once

#include <optional>
#include <string>

#include "doctor/knowledge/recipe.hpp"
#include "doctor/rules/rule.hpp"

namespace berth::doctor {

/// For this machine with its driver and all its GPUs, and this Python. `keep`: the release to keep
/// if possible.
[[nodiscard]] Wish wish_of(Examination& look, Framework framework, const std::string& keep = "");
/// Returns false if there is no such recipe; then no fix was added.
bool add_reinstall(Examination& look, model::Finding& finding, const Wish& wish);
/// Installs `words` from the index of PyTorch's builds with that tag ("": as pip or uv is
/// configured). Uses PyTorch's own index only without a configured mirror. If a mirror may lack the
/// builds, the fix says so.
[[nodiscard]] model::Fix torch_install(Examination& look, const std::vector<std::string>& words,
                                       const std::string& tag, const std::string& says);

/// The PyTorch that NVIDIA builds for this Jetson's release, because wheels of PyPI and PyTorch's
/// index do not support it. nullopt: not a Jetson.
[[nodiscard]] std::optional<model::Fix> jetson_torch(const Compatibility& known,
                                                     const Facts& facts);

}  // namespace berth::doctor
