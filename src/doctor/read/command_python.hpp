// Parses a Python command line as CPython does: options, then a script or a module.
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
  /// Path of the script, as written. If Python runs a launcher, this is the script in the
  /// launcher's arguments. "": none, or standard input.
  std::string script;
};

/// The first of `words` is the interpreter.
[[nodiscard]] PythonWords parse_python_words(const std::vector<std::string>& words);

/// Whether it is certain that this Python would not find the module. False if one of the folders
/// that it searches is unreadable, or has packages with import hooks.
[[nodiscard]] bool surely_lacks_module(const Tree& tree, const Environment& environment,
                                       const std::string& python, const std::string& folder,
                                       const std::string& module);

}  // namespace berth::doctor
