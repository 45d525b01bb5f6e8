// Helpers: the folder of a path, and the value of a variable.
#pragma once

#include <string>

#include "doctor/facts/process.hpp"

namespace berth::doctor {

/// The folder of a path: "/usr/bin" for "/usr/bin/python3"; "/" for "/python3", and for a name
/// without a slash.
[[nodiscard]] inline std::string parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

/// The value of a variable. "" if it is not set, or if the environment is unknown.
[[nodiscard]] inline std::string variable(const Fact<Environment>& environment, const char* name) {
  if (!environment) return "";
  const auto found = environment->find(name);
  return found == environment->end() ? "" : found->second;
}

}  // namespace berth::doctor
