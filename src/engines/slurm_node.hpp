// The health of a node for Slurm: which of its GPUs are unfit, and how to change the node's state.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/slurm_config.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

/// The prefix of our reasons; only nodes with it are resumed.
inline constexpr std::string_view kReasonMark = "berth: ";

/// "0-1,3" of SLURM_JOB_GPUS → the numbers; nullopt for any other text.
[[nodiscard]] std::optional<std::vector<int>> job_gpus(std::string_view list);
/// The numbers of NVIDIA's device files in gres.conf for this node; empty if there are none.
[[nodiscard]] std::vector<int> configured_gpus(const SlurmConfig& config, const std::string& node);
/// The numbers of the existing GPUs.
[[nodiscard]] std::vector<int> gpus_here(const model::Snapshot& snapshot);

/// "berth: GPU 1: lost; GPU 3: not there"; "" if all are fit. In English, at most 200 bytes.
[[nodiscard]] std::string unfit_reason(const model::Snapshot& snapshot,
                                       const std::vector<int>& numbers);

/// The node's state in Slurm.
struct NodeState {
  bool drained = false;
  std::string reason;
};
/// Parses `scontrol show node NAME --oneliner`; nullopt for any other text.
[[nodiscard]] std::optional<NodeState> node_state(std::string_view line);

enum class NodeAction : unsigned char { kNone, kDrain, kResume };
/// A node that was drained by someone else is left alone; one that we drained is resumed if `unfit`
/// is empty.
[[nodiscard]] NodeAction action_for(const std::string& unfit, const NodeState& state);

}  // namespace berth::engines
