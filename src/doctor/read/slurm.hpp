// Finds Slurm's plugins.
#pragma once

#include <string>

#include "doctor/tree/tree.hpp"

namespace berth::doctor {

/// The folder that contains gres_gpu.so, from the list of those that packages and builds use; "" if
/// not found.
[[nodiscard]] std::string slurm_plugin_folder(const Tree& tree);

}  // namespace berth::doctor
