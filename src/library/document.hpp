// Runs `berth` and returns its JSON document, for programs in other languages.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::library {

/// The output of a program, and how the program ended.
struct Said {
  int exit_code = 0;
  std::string out, err;
};

/// Runs `berth WORDS… --json` with the variables and the folder of this process, and an empty
/// stdin. Fails with kUnavailable (E0550) if the program does not exist or cannot be started.
[[nodiscard]] Result<Said> run_program(const std::vector<std::string>& words);

}  // namespace berth::library
