// The parts of `berth slurm` that Slurm and its plugin call.
#pragma once

#include "cli/verb.hpp"

namespace berth::cli {

/// Runs `berth slurm task`. Fails with E1002, E1011, E1012, E0515.
[[nodiscard]] Result<int> slurm_task(const Context& context);
/// Runs `berth slurm plugin`. Fails with E1020 to E1023.
[[nodiscard]] Result<int> slurm_plugin(const Context& context);

/// Runs `berth slurm prolog`, `epilog` or `health`, whichever `word` is. Fails with E1002 and
/// E1013.
[[nodiscard]] Result<int> slurm_node(const Context& context, const std::string& word);
/// Runs `berth slurm lend` or `reclaim`, whichever `word` is. Fails with E1002, E1003 and E1013 to
/// E1016.
[[nodiscard]] Result<int> slurm_lend(const Context& context, const std::string& word);

}  // namespace berth::cli
