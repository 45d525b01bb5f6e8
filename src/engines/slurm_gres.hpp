// The lines of gres.conf and slurm.conf for this machine, from its inventory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "engines/cpu_topology.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

/// Minor numbers of the device nodes of MIG slices.
struct MigMinors {
  /// GPU's minor, GPU instance → /dev/nvidia-caps/nvidia-capN
  std::map<std::pair<unsigned, unsigned>, unsigned> gpu_instances;
  /// GPU's minor, GPU instance, compute instance → N
  std::map<std::pair<unsigned, std::pair<unsigned, unsigned>>, unsigned> compute_instances;
};
/// /proc/driver/nvidia-caps/mig-minors; empty if it cannot be read.
[[nodiscard]] MigMinors read_mig_minors(const Roots& roots);

/// One GPU or MIG slice.
struct Gres {
  int device = -1;                 // model::Device::index
  std::string type;                // "rtx_3090", "a100-sxm4-40gb_1g.5gb"
  std::vector<std::string> files;  // several for a slice
  bool is_slice = false;
  std::string cores;  // "": all, or unknown
};

struct GresNode {
  std::string name;                 // of the host, without the domain
  std::vector<Gres> gpus;           // by PCI address, as CUDA and Slurm number them
  std::optional<CpuTopology> cpus;  // nullopt: unknown
  std::uint64_t memory_bytes = 0;   // 0: unknown
  std::vector<std::string> notes;   // sentences for people, translated
};

/// Slurm's AutoDetect accepts a type that is a part of the name that it detects. Ours is such a
/// part, so nodes with and without AutoDetect can be in one cluster. "NVIDIA GeForce RTX 3090" →
/// "rtx_3090".
[[nodiscard]] std::string slurm_type(const std::string& name);
[[nodiscard]] GresNode gres_node(const model::Snapshot& snapshot,
                                 const std::optional<CpuTopology>& cpus, const MigMinors& minors);

struct GresOptions {
  std::string node;  // "": lines without NodeName, for this node's own file
  int shards = 0;    // of each whole GPU
};
/// The lines of gres.conf, without comments.
[[nodiscard]] std::vector<std::string> gres_lines(const GresNode& node, const GresOptions& options);
/// "gpu:rtx_3090:4,shard:16"; "" without a GPU.
[[nodiscard]] std::string gres_value(const GresNode& node, int shards);
/// The lines of slurm.conf.
[[nodiscard]] std::vector<std::string> slurm_lines(const GresNode& node,
                                                   const GresOptions& options);

}  // namespace berth::engines
