// Where readers look: the folder around a path, and what a variable names.
#pragma once

#include <string>

#include "doctor/facts/process.hpp"

namespace berth::doctor {

/// "/usr/bin" of "/usr/bin/python3"; "/" of "/python3", and of what has no folder.
[[nodiscard]] inline std::string parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

/// "" where it is not set, or the environment is not known.
[[nodiscard]] inline std::string variable(const Fact<Environment>& environment, const char* name) {
  if (!environment) return "";
  const auto found = environment->find(name);
  return found == environment->end() ? "" : found->second;
}

}  // namespace berth::doctor
