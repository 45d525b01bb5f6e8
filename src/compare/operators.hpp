// The slowest operators of a run with --profile. The program runs our module in its own process, so
// its files are not trusted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/comparison.hpp"

namespace berth::compare {

/// The statement to run after `import torch`.
[[nodiscard]] std::string profile_statement();
/// Reads a file of the module; empty if it is none.
[[nodiscard]] std::vector<model::Operator> parse_operators(std::string_view json);
/// Reads and removes the files in this folder. Of several processes, that with the most time.
[[nodiscard]] std::vector<model::Operator> take_operators(const std::string& folder);

}  // namespace berth::compare
