// `berth k8s lend` and `reclaim`: move GPUs of this node between Berth's own queue and Kubernetes.
// engines/own_queue.hpp stores which GPUs pods may not get. `berth-k8s held` tells which GPUs pods
// have.
#include "cli/k8s_lend.hpp"

#include <algorithm>
#include <filesystem>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "cli/lending.hpp"
#include "cli/look.hpp"
#include "cli/scontrol.hpp"
#include "engines/kube_claim.hpp"
#include "engines/own_queue.hpp"
#include "model/device_selector.hpp"
#include "output/words.hpp"
#include "policy/candidates.hpp"

namespace berth::cli {
namespace {

class KubeQueue : public OtherQueue {
 public:
  /// `all`: whether `gpus` are all GPUs of the node.
  KubeQueue(std::string state, std::vector<std::string> ask, const std::vector<LentGpu>& gpus,
            bool all)
      : OtherQueue(*model::scheduler_of("kubernetes")),
        own_(std::move(state)),
        ask_(std::move(ask)),
        gpus_(gpus),
        all_(all) {}

  Result<engines::NodeState> look(bool is_lend) override {
    // If the list of closed GPUs cannot be read, no GPU is offered to pods. So all GPUs count as
    // closed.
    const auto closed = own_.units();
    const auto is_closed = [&](const LentGpu& gpu) {
      return !closed || std::find(closed->begin(), closed->end(), gpu.unit) != closed->end();
    };
    if (!closed && is_lend) return closed.error();
    engines::NodeState now;
    // A command closes or opens all its GPUs in one step, so only GPUs that were added later can
    // differ. Before lending, one closed GPU is enough to count as drained. Before reclaiming, all
    // must be closed.
    now.drained = is_lend ? std::any_of(gpus_.begin(), gpus_.end(), is_closed)
                          : closed && std::all_of(gpus_.begin(), gpus_.end(), is_closed);
    if (now.drained) now.reason = engines::kOwnQueueMark;
    if (is_lend || !now.drained) return now;
    if (auto done = ask(); !done) return std::move(done).error();
    now.use = running_.empty() ? engines::NodeUse::kNone : engines::NodeUse::kJobs;
    return now;
  }
  Status close(const engines::NodeState&) override {
    // If the list is damaged, all GPUs are closed. Writing a new list with only some GPUs would
    // open the others, so fail.
    if (const auto closed = own_.units(); !closed && !all_) return closed.error();
    return set(true);
  }
  Status open(const engines::NodeState&) override { return set(false); }
  [[nodiscard]] std::string running() const override {
    return text("pods of Kubernetes: {}", output::join(running_, ", "));
  }
  [[nodiscard]] Error unknown() const override {
    return {ErrorCode::kUnavailable, "E1082",
            text("it is not known which GPUs pods have: {}", text("berth-k8s did not answer")),
            "systemctl status kubelet"};
  }
  [[nodiscard]] std::string options() const override { return ""; }
  void add_to(output::JsonWriter&) const override {}

 private:
  Status set(bool closed) {
    std::vector<std::string> units;
    for (const LentGpu& gpu : gpus_) units.push_back(gpu.unit);
    return own_.set(units, closed);
  }

  /// Reads which pods have one of the GPUs, from `berth-k8s held`.
  Status ask() {
    const auto said = said_by(ask_);
    const auto json = nlohmann::json::parse(said.value_or(""), nullptr, false);
    const auto& held = json_member(json, "held");
    if (const std::string why = json_text(json, "error"); !why.empty())
      return Error{ErrorCode::kUnavailable, "E1082", why, json_text(json, "hint")};
    if (!held.is_array()) return unknown();
    running_.clear();
    for (const auto& one : held) {
      const std::string device = json_text(one, "device"), by = printable(json_text(one, "by"));
      const bool is_ours = std::any_of(gpus_.begin(), gpus_.end(), [&](const LentGpu& gpu) {
        return gpu.unit == device || engines::is_device_of(device, gpu.unit);
      });
      if (is_ours && std::find(running_.begin(), running_.end(), by) == running_.end())
        running_.push_back(by);
    }
    return Done{};
  }

  engines::OwnQueue own_;
  std::vector<std::string> ask_;
  const std::vector<LentGpu>& gpus_;
  bool all_;
  std::vector<std::string> running_;
};

/// The GPUs and partitions that --devices names, or all that are offered to Kubernetes if there is
/// no --devices.
Result<std::vector<LentGpu>> gpus_of(const Context& context, const model::Snapshot& snapshot) {
  const auto named = context.arguments.values("--devices");
  std::vector<model::Selected> chosen;
  if (!named.empty()) {
    auto selected = model::select_devices(snapshot.devices, named);
    if (!selected) return std::move(selected).error();
    chosen = *std::move(selected);
  }
  const auto offered = engines::kube_units(snapshot);
  std::vector<LentGpu> out;
  for (const policy::Candidate& one : policy::candidates_of(snapshot, {})) {
    const std::string unit = policy::unit_id(*one.device, one.partition);
    const bool is_offered = std::any_of(offered.begin(), offered.end(),
                                        [&](const auto& known) { return known.uuid == unit; });
    const bool is_wanted =
        named.empty() || std::any_of(chosen.begin(), chosen.end(), [&](const auto& wanted) {
          return wanted.device == one.device->index &&
                 (wanted.partition_uuid.empty() || wanted.partition_uuid == unit);
        });
    if (is_offered && is_wanted) out.push_back({unit, policy::label(one)});
  }
  if (out.empty())
    return Error{ErrorCode::kNoDevice, "E1037",
                 text("there is no NVIDIA GPU to offer to Kubernetes"), "berth doctor"};
  return out;
}

}  // namespace

Result<std::string> k8s_program() {
  std::error_code ignored;
  std::string program =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string() +
      "/berth-k8s";
  if (!std::filesystem::exists(program, ignored))
    return Error{ErrorCode::kUnsupported, "E1030",
                 text("{} does not exist: this Berth was built without gRPC", program),
                 "sudo apt-get install libgrpc++-dev protobuf-compiler-grpc && ./dev build"};
  return program;
}

Result<int> k8s_lend(const Context& context, const std::string& word) {
  if (auto may = may_move(*model::scheduler_of("kubernetes"), word); !may)
    return std::move(may).error();
  const Arguments& given = context.arguments;
  const std::string state = given.value("--state").value_or(kKubeState);
  const auto program = k8s_program();
  if (!program) return program.error();
  if (auto made = engines::OwnQueue(state).make_folder("sudo berth k8s " + word); !made)
    return std::move(made).error();
  const auto snapshot = look(context, Processes::kUsers, false);
  if (!snapshot) return snapshot.error();
  const auto gpus = gpus_of(context, *snapshot);
  if (!gpus) return gpus.error();
  std::vector<std::string> ask{*program, "held", "--state", state};
  for (const char* option : {"--kubelet", "--interval"})
    if (const auto value = given.value(option)) ask.insert(ask.end(), {option, *value});
  KubeQueue queue(state, std::move(ask), *gpus, !given.has("--devices"));
  return move_gpus(context, queue, *gpus, word == "lend");
}

}  // namespace berth::cli
