// Parses a Python command line as CPython does: options, then script or module.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/process.hpp"
#include "doctor/tree/tree.hpp"

namespace berth::doctor {

struct PythonWords {
  bool ignores_environment = false;  // -E, -I
  bool no_user_packages = false;     // -s, -I
  std::string module;                // after -m
  /// Path of the script, as written. If Python runs a launcher, the script that the launcher's
  /// arguments name. "": none, or standard input.
  std::string script;
};

/// `words` starts with the interpreter.
[[nodiscard]] PythonWords parse_python_words(const std::vector<std::string>& words);

/// Whether it is certain that no folder that this Python searches contains the module. False if a
/// folder is unreadable, or if packages have import hooks.
[[nodiscard]] bool surely_lacks_module(const Tree& tree, const Environment& environment,
                                       const std::string& python, const std::string& folder,
                                       const std::string& module);

}  // namespace berth::doctor
