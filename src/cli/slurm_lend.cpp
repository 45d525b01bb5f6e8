// `berth slurm lend` and `reclaim`: move the GPUs of this machine between Berth's own queue and
// Slurm.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "cli/lending.hpp"
#include "cli/look.hpp"
#include "cli/scontrol.hpp"
#include "cli/slurm_task.hpp"
#include "engines/slurm_config.hpp"
#include "policy/candidates.hpp"

namespace berth::cli {
namespace {

/// The GPUs that Slurm's configuration lists for the node; all NVIDIA GPUs if it lists none.
std::vector<LentGpu> gpus_of(const model::Snapshot& snapshot, const std::string& node) {
  std::vector<int> numbers;
  const std::string file = env("SLURM_CONF").value_or("");
  const std::string folder =
      file.empty() ? engines::slurm_folder() : file.substr(0, file.rfind('/'));
  if (const auto config = engines::read_slurm_config(folder))
    numbers = engines::configured_gpus(*config, node);
  if (numbers.empty()) numbers = engines::gpus_here(snapshot);
  std::vector<LentGpu> out;
  for (const policy::Candidate& one : policy::candidates_of(snapshot, {})) {
    const auto number = one.device->minor_number;
    if (one.device->vendor != model::Vendor::kNvidia || !number ||
        std::find(numbers.begin(), numbers.end(), static_cast<int>(*number)) == numbers.end())
      continue;
    const std::string unit = policy::unit_id(*one.device, one.partition);
    if (!unit.empty()) out.push_back({unit, policy::label(one)});
  }
  return out;
}

class SlurmQueue : public OtherQueue {
 public:
  explicit SlurmQueue(std::string node)
      : OtherQueue(*model::scheduler_of("slurm")), node_(std::move(node)) {}

  Result<engines::NodeState> look(bool) override {
    auto node = slurm_node_state(node_);
    if (!node) return node;
    auto jobs = slurm_jobs_on(node_);
    if (!jobs) return std::move(jobs).error();
    jobs_ = *std::move(jobs);
    if (node->use == engines::NodeUse::kNone && !jobs_.empty()) node->use = engines::NodeUse::kJobs;
    return node;
  }
  Status close(const engines::NodeState& now) override {
    return update({"State=DRAIN", "Reason=" + engines::own_queue_reason(now)});
  }
  Status open(const engines::NodeState& now) override {
    const std::string before = engines::reason_before(now);
    return before.empty() ? update({"State=RESUME"}) : update({"State=DRAIN", "Reason=" + before});
  }
  [[nodiscard]] std::string running() const override {
    return jobs_.empty() ? text("Slurm's jobs on {}", printable(node_))
                         : text("Slurm's jobs on {}: {}", printable(node_), jobs_);
  }
  [[nodiscard]] Error unknown() const override {
    return {ErrorCode::kUnavailable, "E1015",
            text("the node {} does not answer Slurm, so its jobs may still use the GPUs; the GPUs "
                 "stay lent",
                 printable(node_)),
            "scontrol show node " + node_ + "\nsystemctl status slurmd"};
  }
  [[nodiscard]] std::string options() const override { return " --node " + node_; }
  void add_to(output::JsonWriter& json) const override { json.field("node", node_); }

 private:
  Status update(std::vector<std::string> words) {
    words.insert(words.begin(), {"scontrol", "update", "NodeName=" + node_});
    if (!said_by(words)) return no_scontrol(node_);
    return Done{};
  }

  std::string node_, jobs_;
};

}  // namespace

Result<int> slurm_lend(const Context& context, const std::string& word) {
  const bool is_lend = word == "lend";
  const std::string again = "sudo berth slurm " + word;
  if (auto may = may_move(*model::scheduler_of("slurm"), word); !may) return std::move(may).error();
  std::error_code ignored;
  if (const auto folder = context.arguments.value("--conf"))
    ::setenv(  // NOLINT(concurrency-mt-unsafe): no thread runs yet
        "SLURM_CONF", (std::filesystem::absolute(*folder, ignored) / "slurm.conf").c_str(), 1);
  std::string node = context.arguments.value("--node").value_or("");
  if (node.empty()) {
    char name[256] = {};
    if (::gethostname(name, sizeof name - 1) == 0) node = name;
    node = node.substr(0, node.find('.'));
  }
  if (!is_node_name(node))
    return Error{ErrorCode::kInvalidArgument, "E1002",
                 text("'{}' is not a node name", printable(node)), again + " --node n1"};
  const auto snapshot = look(context, Processes::kUsers, false);
  if (!snapshot) return snapshot.error();
  const std::vector<LentGpu> gpus = gpus_of(*snapshot, node);
  if (gpus.empty())
    return Error{ErrorCode::kNoDevice, "E1003",
                 text("there is no GPU that Slurm could give to jobs"), "berth doctor"};
  SlurmQueue queue(node);
  return move_gpus(context, queue, gpus, is_lend);
}

}  // namespace berth::cli
