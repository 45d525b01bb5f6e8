// The health of a node, for Slurm: which of its GPUs are unfit, and how to change the state of the
// node. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/slurm_config.hpp"
#include "model/snapshot.hpp"

namespace berth::engines {

/// The prefix of reasons that Berth sets. Only nodes with such a reason are resumed.
inline constexpr std::string_view kReasonMark = "berth: ";

/// The numbers in a list such as "0-1,3" of SLURM_JOB_GPUS. nullopt if the text has another form.
[[nodiscard]] std::optional<std::vector<int>> job_gpus(std::string_view list);
/// The numbers of NVIDIA's device files that gres.conf has for this node; empty if there are none.
[[nodiscard]] std::vector<int> configured_gpus(const SlurmConfig& config, const std::string& node);
/// The numbers of the GPUs that exist.
[[nodiscard]] std::vector<int> gpus_here(const model::Snapshot& snapshot);

/// The reason for Slurm: "berth: GPU 1: lost; GPU 3: not there"; "" if all are fit. In English, at
/// most 200 bytes.
[[nodiscard]] std::string unfit_reason(const model::Snapshot& snapshot,
                                       const std::vector<int>& numbers);

/// Whether jobs have resources of the node. kUnknown: it does not answer Slurm.
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
/// What to do with the node. If another program or person drained it, or if its GPUs are in Berth's
/// own queue, it is left alone. If Berth drained it for a GPU, it is resumed once `unfit` is empty.
[[nodiscard]] NodeAction action_for(const std::string& unfit, const NodeState& state);

}  // namespace berth::engines
