// Calls Slurm's scontrol and squeue and reads what they print.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "engines/slurm_node.hpp"

namespace berth::cli {

/// Whether the text can be the name of a node, and is neither an option nor a list.
[[nodiscard]] bool is_node_name(const std::string& text);
/// Runs the program and returns its output; nullopt if it fails or takes more than 8 s.
[[nodiscard]] std::optional<std::string> said_by(std::vector<std::string> words);
/// The error kUnavailable (E1013) for a failed call of scontrol.
[[nodiscard]] Error no_scontrol(const std::string& node);
/// Asks Slurm for the state of the node. Fails with kUnavailable (E1013).
[[nodiscard]] Result<engines::NodeState> slurm_node_state(const std::string& node);
/// The numbers of the jobs that have started on the node and not ended, such as "7, 9_1". Suspended
/// jobs count, because they keep their GPU memory. scontrol would call their node idle. Fails with
/// kUnavailable (E1013).
[[nodiscard]] Result<std::string> slurm_jobs_on(const std::string& node);

}  // namespace berth::cli
