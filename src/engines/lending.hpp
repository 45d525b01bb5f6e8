// Moves the GPUs of a machine between Berth's queue and that of another scheduler (Slurm,
// Kubernetes). A GPU must never be in both queues. No transaction can change two programs, so every
// change closes one queue, waits until its jobs have ended, and then opens the other. Both states
// are durable (Berth's journal; slurmctld's state or a file of the node). The next step follows
// from these two states alone, so after a crash at any point the same command continues. Pure.
#pragma once

#include <string>

#include "engines/slurm_node.hpp"

namespace berth::engines {

/// The drain reason that Slurm shows for a node whose GPUs are in Berth's own queue.
inline constexpr std::string_view kOwnQueueMark = "berth: in Berth's own queue";

/// The state of both queues.
struct Ledgers {
  int gpus = 0, lent = 0;  // all GPUs; GPUs lent to the other scheduler, which get no new Berth job
  int leases = 0;          // jobs of Berth's queue that still have a GPU
  NodeState node = {};     // state of the node in the other scheduler
};

enum class LendStep : unsigned char {
  kDone,
  kCloseBerth,    // mark the GPUs as lent
  kWaitForBerth,  // wait until Berth's jobs on these GPUs have ended
  /// In Slurm: resume the node. If a person had drained it, restore that person's reason instead.
  kOpenOther,
  kCloseOther,    // in Slurm: drain the node
  kWaitForOther,  // wait until the other scheduler's jobs have ended
  kOtherUnknown,  // the scheduler does not answer: its jobs may still run
  kOpenBerth,     // return the GPUs to Berth's queue
};

/// The next step towards giving the GPUs to the other scheduler.
[[nodiscard]] LendStep step_to_lend(const Ledgers& now);
/// The next step towards giving the GPUs back to Berth's queue.
[[nodiscard]] LendStep step_to_take_back(const Ledgers& now);

/// The reason with which Slurm drains the node for Berth's queue. It contains the node's current
/// reason, which reason_before() returns later.
[[nodiscard]] std::string own_queue_reason(const NodeState& node);
/// The node's reason before Berth drained it; "": it had no reason, so the node may be resumed.
[[nodiscard]] std::string reason_before(const NodeState& node);

}  // namespace berth::engines
