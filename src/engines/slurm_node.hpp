// The health of a node for Slurm: which of its GPUs are unfit, and whether to drain or resume the
// node. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/slurm_config.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

/// The prefix of all drain reasons that Berth sets. Berth resumes only nodes whose reason has this
/// prefix.
inline constexpr std::string_view kReasonMark = "berth: ";

/// Parses a list of numbers such as "0-1,3" in SLURM_JOB_GPUS. nullopt if the text has another
/// form.
[[nodiscard]] std::optional<std::vector<int>> job_gpus(std::string_view list);
/// The minor numbers of the GPUs that gres.conf lists for this node; empty if there are none.
[[nodiscard]] std::vector<int> configured_gpus(const SlurmConfig& config, const std::string& node);
/// The minor numbers of the GPUs that this machine has.
[[nodiscard]] std::vector<int> gpus_here(const model::Snapshot& snapshot);

/// The drain reason for Slurm: "berth: GPU 1: lost; GPU 3: not there"; "" if all GPUs are fit. The
/// reason is in English and has at most 200 bytes.
[[nodiscard]] std::string unfit_reason(const model::Snapshot& snapshot,
                                       const std::vector<int>& numbers);

/// Whether the node runs jobs of Slurm. kUnknown: the node does not answer Slurm.
enum class NodeUse : unsigned char { kNone, kJobs, kUnknown };
/// The state of the node in Slurm.
struct NodeState {
  bool drained = false;
  std::string reason = {};
  NodeUse use = NodeUse::kNone;
};
/// Parses the output of `scontrol show node NAME --oneliner`. nullopt if it has another form.
[[nodiscard]] std::optional<NodeState> node_state(std::string_view line);

enum class NodeAction : unsigned char { kNone, kDrain, kResume };
/// Decides how to change the node. If `unfit` is not empty, a node that nobody drained is drained.
/// If `unfit` is empty, a node that Berth drained for a GPU is resumed. A node that another program
/// or person drained, or whose GPUs are in Berth's own queue, is left alone.
[[nodiscard]] NodeAction action_for(const std::string& unfit, const NodeState& state);

}  // namespace berth::engines
