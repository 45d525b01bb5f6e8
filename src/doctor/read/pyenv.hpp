// pyenv puts a shell script in the place of each program of its Pythons, a shim, which starts the
// program of the version that is chosen where it is called.
#pragma once

#include <string>

#include "doctor/facts/process.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

/// The program that `path` starts where it is one of pyenv's shims, else `path` itself; "" none of
/// the chosen versions has that program, and the shim would fail. Chosen by PYENV_VERSION, by
/// .python-version in the folder (PYENV_DIR, PWD) and above, by pyenv's own file `version`.
[[nodiscard]] std::string behind_shim(const Tree& tree, const Fact<Environment>& environment,
                                      const std::string& path);
/// An installed version, the newest, that has the shim's program; "" none.
[[nodiscard]] std::string version_behind_shim(const Tree& tree, const std::string& shim);

}  // namespace berth::doctor
