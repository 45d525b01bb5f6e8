// The program's documents for a program in another language.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::library {

/// What a run of the program said, and how it ended.
struct Said {
  int exit_code = 0;
  std::string out, err;
};

/// `berth WORDS… --json`, in this process's environment and folder, with nothing on its standard
/// input. Fails with kUnavailable (E0550: there is no such program, or it cannot be started).
[[nodiscard]] Result<Said> run_program(const std::vector<std::string>& words);

}  // namespace berth::library
