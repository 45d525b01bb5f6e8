// Finds the environment of a project in the folder where the project's tool keeps it.
#pragma once

#include <string>

#include "doctor/facts/process.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

struct ProjectEnvironment {
  std::string prefix;  // "" not found
  bool is_conda = false;
};

/// `tool` is uv, poetry, pdm, pipenv, rye or pixi. The project is the one that contains `folder`.
[[nodiscard]] ProjectEnvironment project_environment(const Tree& tree,
                                                     const Environment& environment,
                                                     const std::string& folder,
                                                     const std::string& tool);

}  // namespace berth::doctor
