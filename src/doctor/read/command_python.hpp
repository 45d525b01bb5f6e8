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
  /// A file, as written. For a launcher, from the launcher's own arguments. "" none, or standard
  /// input.
  std::string script;
};

/// `words` starts with the interpreter.
[[nodiscard]] PythonWords parse_python_words(const std::vector<std::string>& words);

/// Whether no folder that this Python searches has the module. False if unknown: an unreadable
/// folder, or packages with import hooks.
[[nodiscard]] bool surely_lacks_module(const Tree& tree, const Environment& environment,
                                       const std::string& python, const std::string& folder,
                                       const std::string& module);

}  // namespace berth::doctor
