// The slowest operators of a run with --profile. Berth's Python module writes them inside the
// user's program, so the files are not trusted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/comparison.hpp"

namespace berth::compare {

/// The Python statement that starts the profiler. It runs after `import torch`.
[[nodiscard]] std::string profile_statement();
/// Reads a file that the Python module wrote. Returns an empty list if the file is not in the
/// module's format.
[[nodiscard]] std::vector<model::Operator> parse_operators(std::string_view json);
/// Reads the profiler's files in this folder, and removes them. If several processes wrote a file,
/// returns the operators of the process with the most time.
[[nodiscard]] std::vector<model::Operator> take_operators(const std::string& folder);

}  // namespace berth::compare
