// Whether a Slurm configuration fits the machine: pure, so that any machine can be tried.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engines/slurm_config.hpp"
#include "engines/slurm_gres.hpp"

namespace berth::engines {

/// `id` is stable; both sentences are for people, translated.
struct Difference {
  std::string id, what, fix;
};

/// What the configuration is compared with.
struct SlurmMachine {
  GresNode node;
  std::function<bool(const std::string&)> file_exists;
  std::string plugin_folder;     // where gres_gpu.so is; "" not found
  bool has_nvml_plugin = false;  // gpu_nvml.so is beside it
};

/// Empty: nothing differs. `name`: the node of slurm.conf that this machine is.
[[nodiscard]] std::vector<Difference> differences(const SlurmConfig& config,
                                                  const SlurmMachine& machine,
                                                  const std::string& name);

}  // namespace berth::engines
