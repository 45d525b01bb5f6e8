// The parts of `berth slurm` for Slurm's plugin.
#pragma once

#include "cli/verb.hpp"

namespace berth::cli {

/// `berth slurm task`. Fails with E1002, E1011, E1012, E0515.
[[nodiscard]] Result<int> slurm_task(const Context& context);
/// `berth slurm plugin`. Fails with E1020 to E1023.
[[nodiscard]] Result<int> slurm_plugin(const Context& context);

/// `berth slurm prolog`, `epilog` and `health`, by the word. Fails with E1002 and E1013.
[[nodiscard]] Result<int> slurm_node(const Context& context, const std::string& word);
/// `berth slurm lend` and `reclaim`, by the word. Fails with E1002, E1003 and E1013 to E1016.
[[nodiscard]] Result<int> slurm_lend(const Context& context, const std::string& word);

}  // namespace berth::cli
