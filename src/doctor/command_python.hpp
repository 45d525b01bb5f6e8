// The words that a Python is started with: options as CPython reads them, the script or the module.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/process.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

struct PythonWords {
  bool ignores_environment = false;  // -E, -I
  bool no_user_packages = false;     // -s, -I
  std::string module;                // behind -m
  /// A file, as it is written; a launcher's is that of its own words. "" none, or standard input.
  std::string script;
};

/// `words` begin with the interpreter.
[[nodiscard]] PythonWords parse_python_words(const std::vector<std::string>& words);

/// Nothing that this Python would look through holds the module. False where that is not known: a
/// folder that cannot be read, or packages that are found by code of their own.
[[nodiscard]] bool surely_lacks_module(const Tree& tree, const Environment& environment,
                                       const std::string& python, const std::string& folder,
                                       const std::string& module);

}  // namespace berth::doctor
