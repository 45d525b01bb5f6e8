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

/// The minor numbers of the device files that open MIG slices.
struct MigMinors {
  /// Maps (minor number of the GPU, GPU instance) to N in /dev/nvidia-caps/nvidia-capN.
  std::map<std::pair<unsigned, unsigned>, unsigned> gpu_instances;
  /// Maps (minor number of the GPU, (GPU instance, compute instance)) to N in nvidia-capN.
  std::map<std::pair<unsigned, std::pair<unsigned, unsigned>>, unsigned> compute_instances;
};
/// Reads /proc/driver/nvidia-caps/mig-minors; empty if it cannot be read.
[[nodiscard]] MigMinors read_mig_minors(const Roots& roots);

/// A GPU or a MIG slice, as a generic resource (GRES) of Slurm.
struct Gres {
  int device = -1;                 // model::Device::index
  std::string type;                // "rtx_3090", "a100-sxm4-40gb_1g.5gb"
  std::vector<std::string> files;  // device files; a slice has several
  bool is_slice = false;
  std::string cores;  // Slurm's numbers of the cores near the GPU; "": all cores, or unknown
  /// The value of Links=: the number of NVLinks to each GPU of the node, in the order of the GPUs.
  /// In "-1,4,0,0", -1 is the GPU itself. "" if no number is known, or if all pairs have the same
  /// number.
  std::string links;
};

struct GresNode {
  std::string name;        // name of the host, without the domain
  std::vector<Gres> gpus;  // the GPUs in the order of PCI addresses, as CUDA and Slurm number them
  std::optional<CpuTopology> cpus;  // nullopt: the topology is not known
  std::uint64_t memory_bytes = 0;   // memory of the host; 0: unknown
  std::vector<std::string> notes;   // sentences for people, translated
};

/// Converts a GPU's name to its type for Slurm: "rtx_3090" for "NVIDIA GeForce RTX 3090". The type
/// is a part of the name that AutoDetect finds, and AutoDetect accepts such a part. So one cluster
/// can have nodes with and without AutoDetect.
[[nodiscard]] std::string slurm_type(const std::string& name);
[[nodiscard]] GresNode gres_node(const model::Snapshot& snapshot,
                                 const std::optional<CpuTopology>& cpus, const MigMinors& minors);

struct GresOptions {
  std::string node;  // the node's name; "": omit NodeName, for a gres.conf of this node alone
  int shards = 0;    // number of shards (parts that jobs share) of each whole GPU
};
/// The lines of gres.conf, without comments.
[[nodiscard]] std::vector<std::string> gres_lines(const GresNode& node, const GresOptions& options);
/// The value of Gres=: "gpu:rtx_3090:4,shard:16"; "" if there is no GPU.
[[nodiscard]] std::string gres_value(const GresNode& node, int shards);
/// The lines of slurm.conf.
[[nodiscard]] std::vector<std::string> slurm_lines(const GresNode& node,
                                                   const GresOptions& options);

}  // namespace berth::engines
