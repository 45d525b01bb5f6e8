// Plans the processes on simulated devices. Their memory and activity depend on the seed. The
// processes of a device together need no more memory than the device has.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "sim/machine_check.hpp"
#include "sim/state.hpp"
#include "wire/sim_load.hpp"

namespace berth::sim {
namespace {

namespace wire = berth::wire::sim;

constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::uint64_t kForeignPids =
    5'000'000;  // above the greatest pid of the kernel, so never the pid of a real process

/// A device or partition on which processes can run.
struct Place {
  std::uint32_t device = 0, partition = wire::kNone;
  std::uint64_t free_bytes = 0;
  std::uint32_t newcomers = 0;
};

std::vector<Place> places_of(const Machine& machine, const std::vector<Planned>& there) {
  std::vector<Place> places;
  for (std::uint32_t i = 0; i < device_count(machine); ++i) {
    const MachineDevices& group = group_of(machine, i);
    // skip sleeping devices, because a process would keep the device awake
    if (group.asleep) continue;
    if (group.mig.empty())
      places.push_back({i, wire::kNone, group.memory_bytes - group.memory_reserved_bytes, 0});
    for (std::uint32_t p = 0; p < group.mig.size(); ++p)
      places.push_back({i, p, group.mig[p].memory_bytes, 0});
  }
  for (const Planned& process : there)
    for (Place& place : places)
      if (place.device == process.device && place.partition == process.partition)
        place.free_bytes -= std::min(place.free_bytes, process.memory_bytes);
  return places;
}

std::string command_of(std::uint64_t random, std::uint32_t number) {
  constexpr std::array<std::string_view, 5> kCommands{
      {"python train.py --seed {}", "python finetune.py --epochs {}",
       "python -m ipykernel_launcher -f kernel-{}.json",
       "python -m vllm.entrypoints.openai.api_server --port {}", "python evaluate.py --fold {}"}};
  const std::size_t which = random % kCommands.size();
  return fmt::format(fmt::runtime(kCommands[which]), which == 3 ? 8000 + number : number);
}

Planned newcomer(const Place& place, std::uint64_t seed, std::uint32_t number, bool graphics) {
  const std::uint64_t random = wire::mix(seed, 0x20000 + number);
  Planned process;
  process.device = place.device;
  process.partition = place.partition;
  // All new processes together take at most 85 % of the free memory. Each takes between half and
  // all of its equal part.
  const std::uint64_t part = place.free_bytes / 100 * 85 / place.newcomers;
  process.memory_bytes = std::max(kMiB, part * (500 + random % 501) / 1000 / kMiB * kMiB);
  if (graphics) process.memory_bytes = std::min(process.memory_bytes, (64 + random % 300) * kMiB);
  process.swing_bytes = process.memory_bytes / 16 / kMiB * kMiB;
  process.use = graphics ? wire::kGraphics : wire::kCompute;
  const std::uint64_t habit = random >> 20U;
  process.activity = graphics         ? 3
                     : habit % 4 == 0 ? 0
                                      : static_cast<std::uint32_t>(20 + habit % 76);
  process.command = graphics ? "/usr/lib/xorg/Xorg :" + std::to_string(number)
                             : command_of(random >> 40U, number);
  return process;
}

std::vector<Planned> machines_own(const Machine& machine) {
  std::vector<Planned> all;
  for (const MachineProcess& given : machine.processes) {
    Planned process;
    process.device = static_cast<std::uint32_t>(given.device);
    if (given.partition) process.partition = static_cast<std::uint32_t>(*given.partition);
    process.memory_bytes = given.memory_bytes;
    process.use = 0;
    for (const std::string& word : given.use) process.use |= use_of(word).value_or(0);
    process.activity = static_cast<std::uint32_t>(given.activity_percent);
    process.foreign = given.foreign;
    process.ours = !given.foreign;
    if (given.foreign) process.pid = static_cast<std::int64_t>(kForeignPids + all.size());
    process.command = given.command;
    all.push_back(std::move(process));
  }
  return all;
}

Error no_room(std::string message, std::string hint) {
  return {ErrorCode::kInvalidArgument, "E0610", std::move(message), std::move(hint)};
}

/// A short description of the machine, because the name of a user's file would not help.
std::string what_it_has(const Machine& machine) {
  const auto& known = built_in_machines();
  const bool ours = std::any_of(known.begin(), known.end(), [&machine](const BuiltIn& one) {
    return one.name == machine.name;
  });
  return "berth sim --describe " + (ours ? machine.name : "FILE");
}

Status attach(const Machine& machine, const Options& options, std::vector<Planned>& all) {
  for (const Attached& given : options.attached) {
    const MachineDevices& group = group_of(machine, given.device);
    if (!group.mig.empty())
      return no_room(text("device {} is divided by MIG: a process needs a partition", given.device),
                     what_it_has(machine));
    std::uint64_t used = group.memory_reserved_bytes;
    for (const Planned& process : all)
      if (process.device == given.device) used += process.memory_bytes;
    const std::uint64_t left = group.memory_bytes - std::min(used, group.memory_bytes);
    if (given.memory_bytes > left)
      return no_room(text("the processes of device {} use more memory than it has", given.device),
                     left < kMiB ? what_it_has(machine)
                                 : fmt::format("berth sim --attach {}:{}:{}MiB", given.pid,
                                               given.device, left / kMiB));
    Planned process;
    process.device = given.device;
    process.memory_bytes = given.memory_bytes;
    process.activity = 50;
    process.ours = false;
    process.pid = given.pid;
    all.push_back(std::move(process));
  }
  return Done{};
}

}  // namespace

Result<std::vector<Planned>> plan_processes(const Machine& machine, const Options& options) {
  std::vector<Planned> all = machines_own(machine);
  if (auto attached = attach(machine, options, all); !attached) return std::move(attached).error();
  if (all.size() + options.processes > wire::kMaxProcesses)
    return no_room(text("{} processes: at most {} can be simulated", all.size() + options.processes,
                        std::uint32_t{wire::kMaxProcesses}),
                   fmt::format("berth sim --processes {}", wire::kMaxProcesses - all.size()));
  std::vector<Place> places = places_of(machine, all);
  if (options.processes > 0 && places.empty())
    return no_room(device_count(machine) == 0
                       ? text("machine '{}' has no device that a process could use", machine.name)
                       : text("machine '{}' has no device that is awake, so no process can use one",
                              machine.name),
                   "berth sim --list");
  for (std::uint32_t i = 0; i < options.processes; ++i) ++places[i % places.size()].newcomers;
  for (std::uint32_t i = 0; i < options.processes; ++i) {
    const Place& place = places[i % places.size()];
    if (place.free_bytes / 100 * 85 / place.newcomers < 2 * kMiB)
      return no_room(text("{} processes do not fit into the memory of machine '{}'",
                          options.processes, machine.name),
                     what_it_has(machine));
    all.push_back(
        newcomer(place, options.seed, i, group_of(machine, place.device).display && i % 8 == 7));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Planned& a, const Planned& b) { return a.device < b.device; });
  return all;
}

}  // namespace berth::sim
