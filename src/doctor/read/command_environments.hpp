// Finds the environment that a project tool uses for the project in a folder.
#pragma once

#include <string>

#include "doctor/facts/process.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

struct ProjectEnvironment {
  std::string prefix;  // folder of the environment; empty if none was found
  bool is_conda = false;
};

/// `tool` is uv, poetry, pdm, pipenv, rye or pixi. The project is in `folder` or in one of its
/// parents.
[[nodiscard]] ProjectEnvironment project_environment(const Tree& tree,
                                                     const Environment& environment,
                                                     const std::string& folder,
                                                     const std::string& tool);

}  // namespace berth::doctor
