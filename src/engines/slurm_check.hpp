// Compares a Slurm configuration with the machine. Pure, so that tests can use any machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engines/slurm_config.hpp"
#include "engines/slurm_gres.hpp"

namespace berth::engines {

/// A difference between the configuration and the machine. `id` never changes, so programs can use
/// it; both sentences are translated.
struct Difference {
  std::string id, what, fix;
};

/// The machine to compare the configuration with.
struct SlurmMachine {
  GresNode node;
  std::function<bool(const std::string&)> file_exists;
  std::string plugin_folder;     // the folder that contains gres_gpu.so; "": not found
  bool has_nvml_plugin = false;  // whether gpu_nvml.so is in the same folder
};

/// Returns the differences. `name` is the name of this machine's node in slurm.conf.
[[nodiscard]] std::vector<Difference> differences(const SlurmConfig& config,
                                                  const SlurmMachine& machine,
                                                  const std::string& name);

}  // namespace berth::engines
