// `berth` without a verb: one screen with the machine, its users, problems, and next steps.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/snapshot.hpp"
#include "output/terminal.hpp"

namespace berth::output {

struct NextStep {
  std::string command;
  std::string why;  // translated
};

/// What a device is doing, for the overview. A device with a lease counts as busy even if it is
/// idle.
enum class DeviceState { kFree, kBusy, kDrained, kAsleep, kNotKnown, kProblem, kNotManaged };
[[nodiscard]] std::string_view name(
    DeviceState state);  // "free", "busy", "drained", "asleep", "not_known", …
[[nodiscard]] DeviceState state_of(const model::Device& device, const model::Snapshot& snapshot);

/// The devices, processes and memory that one user uses. `user` is "" for processes of unknown
/// users.
struct UserShare {
  std::string user;
  std::vector<int> devices;
  int processes = 0;
  std::uint64_t memory_bytes = 0;  // sum over the processes whose memory the driver reports
};
[[nodiscard]] std::vector<UserShare> shares_of(const model::Snapshot& snapshot);

/// Something that needs attention.
struct Problem {
  std::optional<int> device;  // Device::index; nullopt: the problem is the driver's
  std::string id;       // "E03xx", a health value ("lost"), or the cause of unattributed memory
  std::string message;  // translated
  std::string hint;     // a command; "" none
};
[[nodiscard]] std::vector<Problem> problems_of(const model::Snapshot& snapshot);

/// Three useful next steps on this machine. Only verbs that exist (`has_verb`) are used.
[[nodiscard]] std::vector<NextStep> next_steps(
    const model::Snapshot& snapshot, const std::function<bool(std::string_view)>& has_verb);

[[nodiscard]] std::string overview_text(const model::Snapshot& snapshot,
                                        const std::vector<NextStep>& next,
                                        const Terminal& terminal);

}  // namespace berth::output
