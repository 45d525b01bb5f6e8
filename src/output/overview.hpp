// `berth` without a verb: shows the machine, its users, problems and suggested commands on one
// screen.
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
  std::string why;  // why the command is suggested, translated
};

/// What a device is doing, for the overview. A device with a lease counts as busy even if it is
/// idle.
enum class DeviceState {
  kFree,
  kBusy,
  kDrained,
  kAsleep,
  kNotKnown,
  kNoPartition,  // MIG is on, but the GPU has no partition, so CUDA cannot use it
  kProblem,
  kNotManaged
};
/// The name in JSON: "free", "busy", "drained", "asleep", "not_known", "no_partition", …
[[nodiscard]] std::string_view name(DeviceState state);
[[nodiscard]] DeviceState state_of(const model::Device& device, const model::Snapshot& snapshot);

/// How many devices and processes one user has, and their memory. `user` is "" if the user is
/// unknown.
struct UserShare {
  std::string user;
  std::vector<int> devices;
  int processes = 0;
  std::uint64_t memory_bytes = 0;  // sum over those processes whose memory the driver reports
};
[[nodiscard]] std::vector<UserShare> shares_of(const model::Snapshot& snapshot);

/// Something that needs attention.
struct Problem {
  // the device's number (Device::index); nullopt if the problem is that of the driver
  std::optional<int> device;
  std::string id;  // "E03xx", a health value such as "lost", or the cause of unattributed memory
  std::string message;  // the problem in a sentence, translated
  std::string hint;     // a command that helps; "" if there is none
};
[[nodiscard]] std::vector<Problem> problems_of(const model::Snapshot& snapshot);

/// At most three commands that are useful on this machine now. Only verbs that exist according to
/// `has_verb` are used.
[[nodiscard]] std::vector<NextStep> next_steps(
    const model::Snapshot& snapshot, const std::function<bool(std::string_view)>& has_verb);

[[nodiscard]] std::string overview_text(const model::Snapshot& snapshot,
                                        const std::vector<NextStep>& next,
                                        const Terminal& terminal);

}  // namespace berth::output
