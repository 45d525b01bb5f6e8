// Network adapters through which GPUs of several machines communicate: InfiniBand, RoCE, and
// Amazon's EFA.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/fact.hpp"

namespace berth::doctor {

/// A port of an adapter, as the kernel reports it.
struct RdmaPort {
  std::string adapter;  // "mlx5_0"
  std::string state;    // "ACTIVE", "DOWN", "INIT"
  bool ethernet = false;
  std::string path;  // "/sys/class/infiniband/mlx5_0/ports/1"
};

struct RdmaFacts {
  Fact<std::vector<RdmaPort>> ports;
  Fact<std::vector<std::string>> nodes;        // names in /dev/infiniband
  Fact<std::vector<std::string>> nccl_plugin;  // paths of libnccl-net*.so in the loader's folders
  Fact<std::string> efa_plugin;  // folder of the plugin that Amazon's installer provides
};

}  // namespace berth::doctor
