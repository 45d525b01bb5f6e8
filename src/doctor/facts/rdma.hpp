// The adapters through which GPUs of several machines exchange: InfiniBand, RoCE, and Amazon's EFA.
#pragma once

#include <string>
#include <vector>

#include "doctor/fact.hpp"
#include "doctor/tree.hpp"

namespace berth::doctor {

/// A port of an adapter, as the kernel sees it.
struct RdmaPort {
  std::string adapter;  // "mlx5_0"
  std::string state;    // "ACTIVE", "DOWN", "INIT"
  bool ethernet = false;
  std::string path;  // "/sys/class/infiniband/mlx5_0/ports/1"
};

struct RdmaFacts {
  Fact<std::vector<RdmaPort>> ports;
  Fact<std::vector<std::string>> nodes;        // names in /dev/infiniband
  Fact<std::vector<std::string>> nccl_plugin;  // libnccl-net*.so where the loader looks
  Fact<std::string> efa_plugin;                // the folder where Amazon's installer puts one
};

/// `searched`: the folders that the loader knows.
[[nodiscard]] RdmaFacts collect_rdma(const Tree& tree,
                                     const Fact<std::vector<std::string>>& searched);

}  // namespace berth::doctor
