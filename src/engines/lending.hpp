// Decides whether Berth's queue or that of another scheduler (Slurm, Kubernetes) gives out the GPUs
// of a machine. A GPU must never be in both queues. There is no transaction over two programs, so
// every change closes one queue, waits until its jobs have ended, and only then opens the other.
// Both states are durable (Berth's journal; slurmctld's state or a file of the node). The next step
// follows from these two states alone, so after a crash at any point the same command continues.
// Pure.
#pragma once

#include <string>

#include "engines/slurm_node.hpp"

namespace berth::engines {

/// The reason of a node whose GPUs are in Berth's own queue; Slurm shows it.
inline constexpr std::string_view kOwnQueueMark = "berth: in Berth's own queue";

/// The state of both queues.
struct Ledgers {
  int gpus = 0, lent = 0;  // Berth gives a lent GPU to no new job
  int leases = 0;          // jobs of Berth's queue that still have a GPU
  NodeState node = {};     // in the other scheduler
};

enum class LendStep : unsigned char {
  kDone,
  kCloseBerth,    // mark the GPUs as lent
  kWaitForBerth,  // wait until Berth's jobs on these GPUs have ended
  kOpenOther,     // in Slurm: resume the node, or restore the reason of the person who drained it
  kCloseOther,    // in Slurm: drain the node
  kWaitForOther,  // wait until the other scheduler's jobs have ended
  kOtherUnknown,  // the scheduler does not answer: its jobs may still run
  kOpenBerth,     // the GPUs get jobs again
};

/// The next step towards giving the GPUs to the other scheduler.
[[nodiscard]] LendStep step_to_lend(const Ledgers& now);
/// The next step towards giving the GPUs back to Berth's queue.
[[nodiscard]] LendStep step_to_take_back(const Ledgers& now);

/// The reason that Slurm gets when the node is drained for Berth's queue. It contains the reason
/// that the node has now.
[[nodiscard]] std::string own_queue_reason(const NodeState& node);
/// The reason that the node had before; "": it had none, so the node may be resumed.
[[nodiscard]] std::string reason_before(const NodeState& node);

}  // namespace berth::engines
