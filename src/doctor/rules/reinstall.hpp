// Fixes that tell people to install a framework anew: the recipe that the compatibility data proves
// for the machine, as `berth env --format pip` prints it.
#pragma once

#include <optional>
#include <string>

#include "doctor/recipe.hpp"
#include "doctor/rule.hpp"

namespace berth::doctor {

/// This machine with its driver and all its GPUs, and this Python. `keep`: the release to stay with
/// where that is possible.
[[nodiscard]] Wish wish_of(Examination& look, Framework framework, const std::string& keep = "");
/// false: there is no such recipe, and no fix was added.
bool add_reinstall(Examination& look, model::Finding& finding, const Wish& wish);
/// Installs `words` from where PyTorch's builds of that tag are ("" as pip or uv is configured):
/// from its own index only where no mirror is configured, and of a mirror that may not have them it
/// says so.
[[nodiscard]] model::Fix torch_install(Examination& look, const std::vector<std::string>& words,
                                       const std::string& tag, const std::string& says);

/// The PyTorch that NVIDIA builds for this Jetson's release: no wheel of PyPI's or PyTorch's own
/// index serves one. nullopt: it is no Jetson.
[[nodiscard]] std::optional<model::Fix> jetson_torch(const Compatibility& known,
                                                     const Facts& facts);

}  // namespace berth::doctor
