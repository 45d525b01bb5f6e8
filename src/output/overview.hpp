// `berth` alone: one screen that says what the machine has, who uses it, what is wrong and what to
// do next.
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

/// What a device is doing, for the overview. Busy is also what a job has a lease of and leaves
/// idle.
enum class DeviceState { kFree, kBusy, kDrained, kAsleep, kProblem, kNotManaged };
[[nodiscard]] std::string_view name(
    DeviceState state);  // "free", "busy", "drained", "asleep", "problem", "not_managed"
[[nodiscard]] DeviceState state_of(const model::Device& device, const model::Snapshot& snapshot);

/// What one user holds; sorted by memory, largest first. `user` is "" for processes whose user is
/// not known.
struct UserShare {
  std::string user;
  std::vector<int> devices;
  int processes = 0;
  std::uint64_t memory_bytes = 0;  // of the processes whose memory the driver tells
};
[[nodiscard]] std::vector<UserShare> shares_of(const model::Snapshot& snapshot);

/// What needs a look.
struct Problem {
  std::optional<int> device;  // Device::index; nullopt: the driver
  std::string id;  // "E03xx", or a health in one word ("lost"), or the cause of unattributed memory
  std::string message;  // translated
  std::string hint;     // a command; "" none
};
[[nodiscard]] std::vector<Problem> problems_of(const model::Snapshot& snapshot);

/// Three steps that fit this machine, out of verbs that exist (`has_verb`).
[[nodiscard]] std::vector<NextStep> next_steps(
    const model::Snapshot& snapshot, const std::function<bool(std::string_view)>& has_verb);

[[nodiscard]] std::string overview_text(const model::Snapshot& snapshot,
                                        const std::vector<NextStep>& next,
                                        const Terminal& terminal);

}  // namespace berth::output
