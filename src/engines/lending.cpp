#include "engines/lending.hpp"

namespace berth::engines {
namespace {

constexpr std::string_view kBefore = "; before: ";

bool is_closed_for_berth(const NodeState& node) {
  return node.drained && node.reason.starts_with(kOwnQueueMark);
}

}  // namespace

LendStep step_to_lend(const Ledgers& now) {
  if (now.lent < now.gpus) return LendStep::kCloseBerth;
  if (now.leases > 0) return LendStep::kWaitForBerth;
  return is_closed_for_berth(now.node) ? LendStep::kOpenOther : LendStep::kDone;
}

LendStep step_to_take_back(const Ledgers& now) {
  if (!is_closed_for_berth(now.node)) return LendStep::kCloseOther;
  if (now.node.use == NodeUse::kUnknown) return LendStep::kOtherUnknown;
  if (now.node.use == NodeUse::kJobs) return LendStep::kWaitForOther;
  return now.lent > 0 ? LendStep::kOpenBerth : LendStep::kDone;
}

std::string own_queue_reason(const NodeState& node) {
  if (is_closed_for_berth(node)) return node.reason;
  std::string reason(kOwnQueueMark);
  if (node.drained && !node.reason.empty()) reason += std::string(kBefore) + node.reason;
  return reason;
}

std::string reason_before(const NodeState& node) {
  const std::size_t at = node.reason.find(kBefore);
  return at == std::string::npos ? "" : node.reason.substr(at + kBefore.size());
}

}  // namespace berth::engines
