// Finds a project's environment where Python project tools keep it.
#pragma once

#include <string>

#include "doctor/facts/process.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

struct ProjectEnvironment {
  std::string prefix;  // "" not found
  bool is_conda = false;
};

/// `tool`: uv, poetry, pdm, pipenv, rye or pixi; the project is the one of `folder`.
[[nodiscard]] ProjectEnvironment project_environment(const Tree& tree,
                                                     const Environment& environment,
                                                     const std::string& folder,
                                                     const std::string& tool);

}  // namespace berth::doctor
