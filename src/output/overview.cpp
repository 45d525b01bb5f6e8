// Computes what the overview shows; overview_text.cpp prints it.
#include "output/overview.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/busy.hpp"
#include "model/device_use.hpp"
#include "output/words.hpp"

namespace berth::output {
namespace {

using model::Device;
using model::DeviceKind;
using model::Health;

constexpr std::size_t kSteps = 3;

bool is_used(const model::Snapshot& snapshot, const Device& device) {
  return std::any_of(snapshot.processes.begin(), snapshot.processes.end(), [&](const auto& one) {
    return one.device == device.index && model::makes_busy(one, device);
  });
}

std::string device_label(const Device& device) {
  return std::string(word_for(device.kind)) + " " + std::to_string(device.index);
}

std::string health_message(const Device& device) {
  const std::string why = health_words(device);
  const std::string age =
      device.age_seconds ? text(" (last seen {} ago)", show_age(*device.age_seconds)) : "";
  return device_label(device) + ": " + std::string(word_for(device.health)) +
         (why.empty() ? "" : ", " + why) + age;
}

bool unwell(const Device& device) {
  return device.health == Health::kDegraded || device.health == Health::kLost ||
         device.health == Health::kNoAnswer || model::use_unknown(device);
}

/// Collects commands to suggest, the most useful first. Skips commands whose verb does not exist.
class Steps {
 public:
  explicit Steps(const std::function<bool(std::string_view)>& has_verb) : has_verb_(has_verb) {}
  void offer(std::string_view verb, std::string command, std::string why) {
    if (steps_.size() < kSteps && has_verb_(verb))
      steps_.push_back({std::move(command), std::move(why)});
  }
  [[nodiscard]] std::vector<NextStep> take() { return std::move(steps_); }

 private:
  const std::function<bool(std::string_view)>& has_verb_;
  std::vector<NextStep> steps_;
};

bool driver_fails(const model::Snapshot& snapshot) {
  return snapshot.driver.state == "error" || snapshot.driver.state == "no answer";
}

void steps_without_gpu(const model::Snapshot& snapshot, Steps& steps) {
  const int threads = snapshot.host.cpu.cores_usable;
  steps.offer("run", "berth run -- python train.py",
              text_n("runs on the CPU with {} thread", "runs on the CPU with {} threads", threads,
                     threads));
  if (driver_fails(snapshot))
    steps.offer("doctor", "berth doctor", std::string(tr("why, and how to fix it")));
  else if (!snapshot.host.simulated)
    steps.offer("doctor", "berth doctor", std::string(tr("why there is no GPU")));
  if (!snapshot.host.simulated)
    steps.offer("sim", "berth sim --machine dgx-h100-8 -- berth",
                std::string(tr("look at a simulated machine with GPUs")));
  steps.offer("ls", "berth ls --details",
              std::string(tr("all that is known about the devices here")));
  steps.offer("env", "berth env", std::string(tr("the environment variables a job would get")));
  steps.offer("help", "berth help", std::string(tr("all verbs")));
}

/// Bytes of memory that a shared job could get: neither in use nor promised to a job. 0 if a job
/// has the whole device, or if the device is drained.
std::uint64_t shareable(const Device& device, const model::Snapshot& snapshot) {
  const auto& readings = device.readings;
  const std::uint64_t total = readings.memory_total_bytes.value_or(0);
  const std::uint64_t used = readings.memory_used_bytes.value_or(total);
  std::uint64_t promised = 0;
  for (const model::Holding& one : leases_of(device, snapshot)) {
    if (one.job == 0 || one.memory_bytes == 0) return 0;
    promised += one.memory_bytes;
  }
  return total - std::min(total, std::max(used, promised));
}

struct Room {
  int free = 0, gpus = 0;
  std::uint64_t roomiest = 0;       // the most free memory that one GPU has, in bytes
  const Device* unknown = nullptr;  // the first GPU for which it is not known who uses it
};

Room room_of(const model::Snapshot& snapshot) {
  Room room;
  // `berth run` uses integrated graphics only if there is no graphics card, or if the user names
  // it.
  const bool with_cards = std::any_of(
      snapshot.devices.begin(), snapshot.devices.end(),
      [](const Device& device) { return is_gpu(device) && !model::processor_graphics(device); });
  for (const Device& device : snapshot.devices) {
    if (!is_gpu(device) || (with_cards && model::processor_graphics(device))) continue;
    ++room.gpus;
    const DeviceState state = state_of(device, snapshot);
    if (state == DeviceState::kNotKnown && device.processes_unknown && room.unknown == nullptr)
      room.unknown = &device;
    if (state == DeviceState::kFree || state == DeviceState::kAsleep) ++room.free;
    if (!unwell(device) && state != DeviceState::kNoPartition)
      room.roomiest = std::max(room.roomiest, shareable(device, snapshot));
  }
  return room;
}

void steps_with_gpus(const model::Snapshot& snapshot, const Room& room, Steps& steps) {
  constexpr std::uint64_t kGiB = 1ULL << 30U;
  if (room.free > 0)
    steps.offer("run", "berth run --gpus 1 -- python train.py",
                std::string(tr("run on a free GPU, with the right environment")));
  else if (room.roomiest >= 2 * kGiB)
    steps.offer("run",
                fmt::format("berth run --memory {}GiB -- python train.py",
                            std::min<std::uint64_t>(8, room.roomiest / kGiB)),
                std::string(tr("part of the least used GPU")));
  else if (room.unknown != nullptr)
    steps.offer(
        "run", fmt::format("berth run --devices {} -- python train.py", room.unknown->index),
        text("run on {}, if you know that no one else uses it", device_label(*room.unknown)));
  const bool ill =
      std::any_of(snapshot.devices.begin(), snapshot.devices.end(), [&](const Device& device) {
        return unwell(device) || state_of(device, snapshot) == DeviceState::kNoPartition;
      });
  if (driver_fails(snapshot) || ill)
    steps.offer("doctor", "berth doctor", std::string(tr("why, and how to fix it")));
  for (const Device& device : snapshot.devices) {
    if (!unwell(device)) continue;
    steps.offer("ls", fmt::format("berth ls --details --device {}", device.index),
                text("all known values of {}", device_label(device)));
    break;
  }
  if (snapshot.leases && !snapshot.leases->empty())
    steps.offer("jobs", "berth jobs", std::string(tr("running and waiting jobs, and their users")));
  if (!snapshot.processes.empty())
    steps.offer("ps", "berth ps", std::string(tr("every process on a device, and its user")));
  if (room.free == 0)
    steps.offer("run", "berth run --cpu -- python train.py",
                std::string(tr("run on the CPU meanwhile")));
  steps.offer("ls", "berth ls", std::string(tr("every device in one table")));
  steps.offer("env", "berth env --gpus 1",
              std::string(tr("the environment variables a job would get")));
  steps.offer("help", "berth help", std::string(tr("all verbs")));
}

}  // namespace

std::string_view name(DeviceState state) {
  switch (state) {
    case DeviceState::kFree:
      return "free";
    case DeviceState::kBusy:
      return "busy";
    case DeviceState::kDrained:
      return "drained";
    case DeviceState::kAsleep:
      return "asleep";
    case DeviceState::kNotKnown:
      return "not_known";
    case DeviceState::kNoPartition:
      return "no_partition";
    case DeviceState::kProblem:
      return "problem";
    case DeviceState::kNotManaged:
      return "not_managed";
  }
  return "";
}

DeviceState state_of(const Device& device, const model::Snapshot& snapshot) {
  if (model::out_of_reach(device)) return DeviceState::kProblem;
  if (!device.managed) return DeviceState::kNotManaged;
  if (unwell(device)) return DeviceState::kProblem;
  if (is_used(snapshot, device) ||
      (model::has_unseen_users(device, snapshot) && !device.processes_unknown))
    return DeviceState::kBusy;
  const auto leases = leases_of(device, snapshot);
  if (std::any_of(leases.begin(), leases.end(), [](const auto& one) { return !is_drained(one); }))
    return DeviceState::kBusy;
  if (device.processes_unknown || device.partitions_unknown) return DeviceState::kNotKnown;
  if (!leases.empty() && (device.partitions.empty() || leases.size() >= device.partitions.size()))
    return DeviceState::kDrained;
  if (device.mig_enabled.value_or(false) && device.partitions.empty())
    return DeviceState::kNoPartition;
  return device.health == Health::kAsleep ? DeviceState::kAsleep : DeviceState::kFree;
}

std::vector<UserShare> shares_of(const model::Snapshot& snapshot) {
  std::vector<UserShare> shares;
  for (const model::DeviceProcess& process : snapshot.processes) {
    const std::string user = printable(process.user);
    auto share = std::find_if(shares.begin(), shares.end(),
                              [&](const UserShare& one) { return one.user == user; });
    if (share == shares.end()) {
      shares.push_back({user, {}, 0, 0});
      share = shares.end() - 1;
    }
    ++share->processes;
    share->memory_bytes += process.memory_bytes.value_or(0);
    if (std::find(share->devices.begin(), share->devices.end(), process.device) ==
        share->devices.end())
      share->devices.push_back(process.device);
  }
  std::stable_sort(shares.begin(), shares.end(), [](const UserShare& a, const UserShare& b) {
    return a.memory_bytes > b.memory_bytes;
  });
  return shares;
}

std::vector<Problem> problems_of(const model::Snapshot& snapshot) {
  std::vector<Problem> problems;
  const model::Driver& driver = snapshot.driver;
  if (!driver.message.empty())
    problems.push_back({std::nullopt, driver.error_id, printable(driver.message), driver.hint});
  for (const Device& device : snapshot.devices)
    if (unwell(device))
      problems.push_back({device.index, std::string(model::name(device.health)),
                          health_message(device),
                          fmt::format("berth ls --details --device {}", device.index)});
  for (const Device& device : snapshot.devices)
    if (device.processes_unknown && !unwell(device))
      problems.push_back(
          {device.index, "processes_unknown",
           text("{}: its users are not known: {}", device_label(device), printable(device.note)),
           fmt::format("berth ls --details --device {}", device.index)});
  for (const model::Unattributed& memory : snapshot.unattributed) {
    const Device* device = find_device(snapshot, memory.device);
    if (device == nullptr || is_usual(memory) || device->processes_unknown) continue;
    problems.push_back({memory.device, memory.cause,
                        device_label(*device) + ": " + unaccounted_words(memory),
                        fmt::format("berth ps --device {}", memory.device)});
  }
  return problems;
}

std::vector<NextStep> next_steps(const model::Snapshot& snapshot,
                                 const std::function<bool(std::string_view)>& has_verb) {
  Steps steps(has_verb);
  const Room room = room_of(snapshot);
  if (room.gpus == 0)
    steps_without_gpu(snapshot, steps);
  else
    steps_with_gpus(snapshot, room, steps);
  return steps.take();
}

}  // namespace berth::output
