#include "engines/slurm_node.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_parts.hpp"
#include "engines/fitness.hpp"
#include "engines/lending.hpp"
#include "model/cpu_list.hpp"

namespace berth::engines {
namespace {

constexpr std::size_t kMostReason = 200;

const model::Device* with_minor(const model::Snapshot& snapshot, int number) {
  for (const model::Device& device : snapshot.devices)
    if (device.kind == model::DeviceKind::kGpu && device.vendor == model::Vendor::kNvidia &&
        device.minor_number == static_cast<std::uint32_t>(number))
      return &device;
  return nullptr;
}

/// Returns the value of a field in a line: "IDLE+DRAIN" if the line contains "State=IDLE+DRAIN".
/// Blanks separate fields.
std::string_view field(std::string_view line, std::string_view name) {
  std::size_t at = 0;
  while ((at = line.find(name, at)) != std::string_view::npos) {
    if (at == 0 || line[at - 1] == ' ') {
      const std::string_view rest = line.substr(at + name.size());
      return rest.substr(0, rest.find_first_of(" \n"));
    }
    at += name.size();
  }
  return {};
}

}  // namespace

std::optional<std::vector<int>> job_gpus(std::string_view list) {
  return list.empty() || list.size() > 1024 ? std::nullopt : model::parse_cpu_list(list);
}

std::vector<int> configured_gpus(const SlurmConfig& config, const std::string& node) {
  std::vector<int> numbers;
  if (!config.gres) return numbers;
  for (const GresLine& line : *config.gres) {
    const bool ours = line.nodes.empty() ||
                      std::find(line.nodes.begin(), line.nodes.end(), node) != line.nodes.end();
    if (!ours || line.name != "gpu") continue;
    for (const std::string_view file : line.files) {
      const std::string_view name = file.substr(file.rfind('/') + 1);
      if (!name.starts_with("nvidia")) continue;
      const auto number = to_number(name.substr(6));
      if (number && *number >= 0 && *number < 1024 &&
          std::find(numbers.begin(), numbers.end(), *number) == numbers.end())
        numbers.push_back(static_cast<int>(*number));
    }
  }
  return numbers;
}

std::vector<int> gpus_here(const model::Snapshot& snapshot) {
  std::vector<int> numbers;
  for (const model::Device& device : snapshot.devices)
    if (device.kind == model::DeviceKind::kGpu && device.vendor == model::Vendor::kNvidia &&
        device.minor_number)
      numbers.push_back(static_cast<int>(*device.minor_number));
  return numbers;
}

std::string unfit_reason(const model::Snapshot& snapshot, const std::vector<int>& numbers) {
  std::string reason;
  for (const int number : numbers) {
    const model::Device* device = with_minor(snapshot, number);
    const std::string why = device == nullptr ? "missing" : why_unfit(*device);
    if (why.empty()) continue;
    reason += reason.empty() ? std::string(kReasonMark) : "; ";
    reason += fmt::format("GPU {}: {}", number, why);
  }
  if (reason.size() > kMostReason) reason.resize(kMostReason);
  return reason;
}

std::optional<NodeState> node_state(std::string_view line) {
  const std::string_view state = field(line, "State=");
  if (state.empty()) return std::nullopt;
  NodeState out;
  // The first word is the state of the node: "IDLE", "MIXED". Flags follow it; "*" means that the
  // node does not answer.
  const std::string_view does = state.substr(0, state.find('+'));
  const auto has = [&](const char* word) { return state.find(word) != std::string_view::npos; };
  if (has("*") || has("NOT_RESPONDING") || does.starts_with("DOWN") || does.starts_with("UNKNOWN"))
    out.use = NodeUse::kUnknown;
  else if (!does.starts_with("IDLE") || has("COMPLETING"))
    out.use = NodeUse::kJobs;
  out.drained = state.find("DRAIN") != std::string_view::npos;
  // The reason is the last field and may contain blanks; Slurm appends its author and time.
  if (const auto at = line.find(" Reason="); at != std::string_view::npos) {
    std::string_view reason = line.substr(at + 8);
    reason = reason.substr(0, reason.find(" ["));
    out.reason = trim(reason.substr(0, reason.find('\n')));
  }
  return out;
}

NodeAction action_for(const std::string& unfit, const NodeState& state) {
  if (!unfit.empty()) return state.drained ? NodeAction::kNone : NodeAction::kDrain;
  return state.drained && state.reason.starts_with(kReasonMark) &&
                 !state.reason.starts_with(kOwnQueueMark)
             ? NodeAction::kResume
             : NodeAction::kNone;
}

}  // namespace berth::engines
