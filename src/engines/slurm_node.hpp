// The health of a node for Slurm: which of its GPUs are unfit, and what Slurm is to be told. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/slurm_config.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

/// How a reason of ours begins: only such a node is resumed.
inline constexpr std::string_view kReasonMark = "berth: ";

/// "0-1,3" of SLURM_JOB_GPUS → the numbers; nullopt if it is anything else.
[[nodiscard]] std::optional<std::vector<int>> job_gpus(std::string_view list);
/// The numbers of NVIDIA's device files in gres.conf for this node; empty: it names none.
[[nodiscard]] std::vector<int> configured_gpus(const SlurmConfig& config, const std::string& node);
/// The numbers of the GPUs that are there.
[[nodiscard]] std::vector<int> gpus_here(const model::Snapshot& snapshot);

/// "berth: GPU 1: lost; GPU 3: not there"; "" if all of them are fit. In English, at most 200
/// bytes.
[[nodiscard]] std::string unfit_reason(const model::Snapshot& snapshot,
                                       const std::vector<int>& numbers);

/// What Slurm says about the node.
struct NodeState {
  bool drained = false;
  std::string reason;
};
/// From `scontrol show node NAME --oneliner`; nullopt if it is no such line.
[[nodiscard]] std::optional<NodeState> node_state(std::string_view line);

enum class NodeAction : unsigned char { kNone, kDrain, kResume };
/// A node that somebody else drained is left alone; one of ours is resumed if `unfit` is empty.
[[nodiscard]] NodeAction action_for(const std::string& unfit, const NodeState& state);

}  // namespace berth::engines
