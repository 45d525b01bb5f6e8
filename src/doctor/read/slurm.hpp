// Finds Slurm's plugins.
#pragma once

#include <string>

#include "doctor/tree/tree.hpp"

namespace berth::doctor {

/// Searches the folders that packages and builds use for the one with gres_gpu.so; "" if not found.
[[nodiscard]] std::string slurm_plugin_folder(const Tree& tree);

}  // namespace berth::doctor
