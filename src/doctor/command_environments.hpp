// Where the tools of Python projects keep a project's environment.
#pragma once

#include <string>

#include "doctor/facts/process.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

struct ProjectEnvironment {
  std::string prefix;  // "" not found
  bool is_conda = false;
};

/// `tool`: uv, poetry, pdm, pipenv, rye, pixi; the project is that of `folder`.
[[nodiscard]] ProjectEnvironment project_environment(const Tree& tree,
                                                     const Environment& environment,
                                                     const std::string& folder,
                                                     const std::string& tool);

}  // namespace berth::doctor
