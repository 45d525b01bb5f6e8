// The slowest operators of a run with --profile. Berth's module runs in the process of the program,
// so the files that it writes are not trusted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/comparison.hpp"

namespace berth::compare {

/// The statement to run after `import torch`.
[[nodiscard]] std::string profile_statement();
/// Reads a file that the module wrote; empty if the file is not in the module's format.
[[nodiscard]] std::vector<model::Operator> parse_operators(std::string_view json);
/// Reads and removes the files in this folder. If several processes wrote a file, returns the
/// operators of the process with the most time.
[[nodiscard]] std::vector<model::Operator> take_operators(const std::string& folder);

}  // namespace berth::compare
