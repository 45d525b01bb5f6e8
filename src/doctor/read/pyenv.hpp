// pyenv replaces each program of its Pythons with a shim: a shell script that starts the same
// program in the Python version that is selected for the current folder.
#pragma once

#include <string>

#include "doctor/facts/process.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

/// The program that `path` starts if it is a pyenv shim, otherwise `path`. "" if no selected
/// version has the program, so the shim would fail. The version is selected by PYENV_VERSION, by
/// .python-version in the folder (PYENV_DIR, PWD) or its parents, or by pyenv's global file
/// `version`.
[[nodiscard]] std::string behind_shim(const Tree& tree, const Fact<Environment>& environment,
                                      const std::string& path);
/// The newest installed version that has the shim's program; empty if there is none.
[[nodiscard]] std::string version_behind_shim(const Tree& tree, const std::string& shim);

}  // namespace berth::doctor
