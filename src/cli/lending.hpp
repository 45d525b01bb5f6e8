// `berth slurm lend`, `berth k8s lend`, and `reclaim`: move GPUs between Berth's own queue and that
// of another scheduler. engines/lending.hpp decides each step.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/verb.hpp"
#include "engines/lending.hpp"
#include "model/ledger.hpp"
#include "output/json_writer.hpp"

namespace berth::cli {

struct LentGpu {
  std::string unit, label;
};

/// The interface to the queue of the other scheduler.
class OtherQueue {
 public:
  explicit OtherQueue(const model::Scheduler& scheduler) : scheduler_(scheduler) {}
  virtual ~OtherQueue() = default;
  OtherQueue(const OtherQueue&) = delete;
  OtherQueue& operator=(const OtherQueue&) = delete;

  /// Reads the node's state in the other queue. A node that is drained with Berth's reason gives
  /// its GPUs to no new job of that queue.
  [[nodiscard]] virtual Result<engines::NodeState> look(bool is_lend) = 0;
  [[nodiscard]] virtual Status close(const engines::NodeState& now) = 0;
  [[nodiscard]] virtual Status open(const engines::NodeState& now) = 0;
  /// The jobs of the other queue that still use the GPUs, as a text for people.
  [[nodiscard]] virtual std::string running() const = 0;
  /// The error to report if the other queue cannot tell whether its jobs still use the GPUs.
  [[nodiscard]] virtual Error unknown() const = 0;
  /// Options that must be repeated in a suggested command: " --node n1".
  [[nodiscard]] virtual std::string options() const = 0;
  virtual void add_to(output::JsonWriter& json) const = 0;

  [[nodiscard]] const model::Scheduler& scheduler() const { return scheduler_; }

 private:
  const model::Scheduler& scheduler_;
};

/// Fails if the caller is not root. `word` is "lend" or "reclaim", for the message.
[[nodiscard]] Status may_move(const model::Scheduler& scheduler, const std::string& word);
/// Moves the GPUs and prints what was done. Fails with kUnavailable (E1014, E1016), or with the
/// errors of the queue and of the broker.
[[nodiscard]] Result<int> move_gpus(const Context& context, OtherQueue& queue,
                                    const std::vector<LentGpu>& gpus, bool is_lend);

}  // namespace berth::cli
