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
/// The output of the program; nullopt if it fails or takes more than 8 s.
[[nodiscard]] std::optional<std::string> said_by(std::vector<std::string> words);
/// The error kUnavailable (E1013).
[[nodiscard]] Error no_scontrol(const std::string& node);
/// The state of the node. Fails with kUnavailable (E1013).
[[nodiscard]] Result<engines::NodeState> slurm_node_state(const std::string& node);
/// The numbers of the jobs that have started on the node and not ended: "7, 9_1". They include
/// suspended jobs, which keep their GPU memory, although scontrol shows their node as idle. Fails
/// with kUnavailable (E1013).
[[nodiscard]] Result<std::string> slurm_jobs_on(const std::string& node);

}  // namespace berth::cli
