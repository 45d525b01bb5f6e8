// The lines of gres.conf and slurm.conf for this machine, made from its inventory.
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

/// The minor numbers of the device nodes for MIG slices.
struct MigMinors {
  /// (GPU's minor, GPU instance) → N of /dev/nvidia-caps/nvidia-capN
  std::map<std::pair<unsigned, unsigned>, unsigned> gpu_instances;
  /// (GPU's minor, GPU instance, compute instance) → N
  std::map<std::pair<unsigned, std::pair<unsigned, unsigned>>, unsigned> compute_instances;
};
/// Reads /proc/driver/nvidia-caps/mig-minors; empty if it cannot be read.
[[nodiscard]] MigMinors read_mig_minors(const Roots& roots);

/// A GPU or a MIG slice.
struct Gres {
  int device = -1;                 // model::Device::index
  std::string type;                // "rtx_3090", "a100-sxm4-40gb_1g.5gb"
  std::vector<std::string> files;  // device files; a slice has several
  bool is_slice = false;
  std::string cores;  // Slurm's cores near it; "": all, or unknown
  /// The number of NVLinks to each GPU of the node, in the order of the GPUs, as Slurm writes it:
  /// "-1,4,0,0". "" if none are known, or if all pairs have the same number, which tells Slurm
  /// nothing.
  std::string links;
};

struct GresNode {
  std::string name;  // name of the host, without the domain
  std::vector<Gres>
      gpus;  // the GPUs by PCI address, which is the order in which CUDA and Slurm number them
  std::optional<CpuTopology> cpus;  // nullopt: unknown
  std::uint64_t memory_bytes = 0;   // 0: unknown
  std::vector<std::string> notes;   // sentences for people, translated
};

/// The GPU type for Slurm: "rtx_3090" for "NVIDIA GeForce RTX 3090". Slurm's AutoDetect accepts a
/// type that is a part of the detected name. This type is such a part, so one cluster can have
/// nodes with and without AutoDetect.
[[nodiscard]] std::string slurm_type(const std::string& name);
[[nodiscard]] GresNode gres_node(const model::Snapshot& snapshot,
                                 const std::optional<CpuTopology>& cpus, const MigMinors& minors);

struct GresOptions {
  std::string node;  // the node's name; "": write lines without NodeName, for the node's own file
  int shards = 0;    // number of shards for each whole GPU
};
/// The lines of gres.conf, without comments.
[[nodiscard]] std::vector<std::string> gres_lines(const GresNode& node, const GresOptions& options);
/// The value of Gres=: "gpu:rtx_3090:4,shard:16"; "" if there is no GPU.
[[nodiscard]] std::string gres_value(const GresNode& node, int shards);
/// The lines of slurm.conf.
[[nodiscard]] std::vector<std::string> slurm_lines(const GresNode& node,
                                                   const GresOptions& options);

}  // namespace berth::engines
