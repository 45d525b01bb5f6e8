#include "policy/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/busy.hpp"
#include "model/device_selector.hpp"
#include "model/device_use.hpp"
#include "model/topology.hpp"
#include "policy/affinity.hpp"
#include "policy/candidates.hpp"
#include "policy/demand.hpp"
#include "policy/placement_refusal.hpp"
#include "policy/visible.hpp"

namespace berth::policy {
namespace {

/// If the machine has a graphics card, integrated graphics are used only if the user names them.
/// Without this rule, a job could get integrated graphics, with CUDA or ROCm hidden, instead of
/// sharing the card.
void leave_out_processor_graphics(Search& search) {
  const auto cards = only(visible_of(search),
                          [](const Candidate& c) { return !model::processor_graphics(*c.device); });
  if (cards.empty() || !search.request.devices.empty()) return;
  search.all =
      only(search.all, [](const Candidate& c) { return !model::processor_graphics(*c.device); });
}

// The following functions handle one kind of request each.

Result<Candidates> for_itself(const Search& search, const Candidates& visible, int count) {
  if (const auto error = too_few_at_all(search, visible, count)) return *error;
  auto chosen = choose(idle_of(usable_of(visible)), count, {});
  if (chosen.empty()) return none_free(search, visible, count);
  return chosen;
}

Result<Candidates> by_memory(const Search& search, const Candidates& visible, int count,
                             std::uint64_t need) {
  if (const auto error = too_few_at_all(search, visible, count)) return *error;
  const auto enough = only(usable_of(visible), [&](const Candidate& c) {
    return c.free_bytes && *c.free_bytes >= need;
  });
  auto chosen =
      choose(only(enough, [&](const Candidate& c) { return has_share(c, search); }), count, need);
  if (chosen.empty() && !choose(enough, count, need).empty())
    return no_share(search, enough, count);
  if (chosen.empty()) return no_memory(search, visible, count, need);
  return chosen;
}

/// Returns the hint for a job without options that has to wait. Adds two commands: one uses the CPU
/// immediately, the other after ten minutes of waiting.
std::string instead_of_waiting(const Search& search, const Error& held) {
  std::string hint = held.hint;
  const std::string cpu = call_with(search.request, "--cpu");
  if (hint.find(cpu) == std::string::npos) hint += (hint.empty() ? "" : "\n") + cpu;
  if (search.request.verb == "run" || search.request.verb == "lease")
    hint += "\n" + call_with(search.request, "--or-cpu-after 10m");
  return hint;
}

/// Chooses a device if the user gave no options. Takes one free GPU. If all are busy, fails, so
/// that the job waits instead of sharing a GPU. If no GPU can be used at all, returns no device:
/// the job then uses the CPU.
Result<Candidates> whatever_there_is(const Search& search, std::vector<std::string>& reasons) {
  const auto visible = visible_of(search);
  auto idle = choose(idle_of(usable_of(visible)), 1, {});
  if (!idle.empty()) return idle;
  const auto comes_free = [](const Candidate& c) {
    return c.lease != nullptr || c.obstacle == Obstacle::kNone || c.obstacle == Obstacle::kTaken;
  };
  if (std::any_of(visible.begin(), visible.end(), comes_free)) {
    Error held = none_free(search, visible, 1);
    held.hint = instead_of_waiting(search, held);
    return held;
  }
  if (search.all.empty()) {
    const std::string& state = search.snapshot.driver.state;
    const bool broken = state == "error" || state == "no answer";
    reasons.push_back(broken ? text("on the CPU: no GPU of this machine can be used")
                             : text("on the CPU: there is no GPU here"));
    if (broken) reasons.push_back(search.snapshot.driver.message);
  } else if (visible.empty()) {
    reasons.push_back(
        search.visible.hides_all
            ? text("on the CPU: {} was already set and hides every GPU", search.visible.variables)
            : text("on the CPU: {} was already set and allows no GPU of this machine",
                   search.visible.variables));
  } else {
    reasons.push_back(text("on the CPU: no GPU can be used"));
    for (const Candidate& c : visible) reasons.push_back(held(c, search));
  }
  return Candidates{};
}

Error not_for_jobs(const Search& search, const model::Device& device) {
  const std::string name = printable(device.name);
  std::string message =
      device.kind == model::DeviceKind::kCpu ? text("a job always has the CPU: name only GPUs")
      : device.kind == model::DeviceKind::kOpenCl
          ? text("{} is an OpenCL device: no variable selects it, the program must do so itself",
                 name)
      : model::out_of_reach(device) ? text("the driver cannot access: {}", name)
                                    : text("Berth lists {}, but does not manage it", name);
  return {ErrorCode::kInvalidArgument, "E0418", std::move(message),
          device.kind == model::DeviceKind::kOpenCl
              ? call_with(search.request, fmt::format("--devices {} --memory 1GiB", device.index))
              : "berth ls"};
}

/// Returns the candidate that the user named. If that is a GPU with MIG enabled, returns the GPU's
/// best partition.
Result<Candidate> named(const Search& search, const Unit& unit) {
  const auto mine = only(search.all, [&](const Candidate& c) {
    return c.device->index == unit.device && (unit.partition_uuid.empty() || c.unit() == unit);
  });
  if (mine.empty() && std::find(search.ledger.made.begin(), search.ledger.made.end(),
                                unit.partition_uuid) != search.ledger.made.end())
    return Error{ErrorCode::kRefused, "E0419",
                 text("{} cannot be used: {}", unit.partition_uuid,
                      text("it was made for one job, and is removed when that job ends")),
                 call_with(search.request, "--isolation mig --memory 8GiB")};
  if (mine.empty()) {
    for (const model::Device& device : search.snapshot.devices)
      if (device.index == unit.device) return not_for_jobs(search, device);
    return Error{ErrorCode::kInternal, "E7001", text("a device vanished while it was chosen"), ""};
  }
  const auto visible = only(mine, [&](const Candidate& c) {
    return search.visible.allows(c.unit().device, c.unit().partition_uuid);
  });
  if (visible.empty())
    return Error{ErrorCode::kRefused, "E0416",
                 text("{} does not allow {}", search.visible.variables, label(mine.front())),
                 text("unset the variable, or name a device that it allows")};
  const auto usable = usable_of(visible);
  // A named device that does not answer is tried, because it may recover.
  const Obstacle obstacle = visible.front().obstacle;
  if (usable.empty() && obstacle == Obstacle::kLeased)
    return Error{ErrorCode::kRefused, "E0412", held(visible.front(), search), "berth jobs"};
  if (usable.empty() && obstacle != Obstacle::kNoAnswer && obstacle != Obstacle::kUnreadable)
    return Error{ErrorCode::kRefused, "E0419",
                 text("{} cannot be used: {}", label(visible.front()), sentence(obstacle)),
                 "berth ls"};
  if (usable.empty()) return visible.front();
  const auto idle = choose(idle_of(usable), 1, {});
  return idle.empty() ? freest(usable) : idle.front();
}

Result<Candidates> all_named(const Search& search, const std::vector<Unit>& units) {
  Candidates chosen;
  for (const Unit& unit : units) {
    const auto one = named(search, unit);
    if (!one) return one.error();
    chosen.push_back(*one);
  }
  const auto parts = only(chosen, [](const Candidate& c) { return c.partition != nullptr; });
  if (chosen.size() > 1 && !parts.empty())
    return Error{
        ErrorCode::kInvalidArgument, "E0418",
        text("CUDA shows a program only one MIG partition; {} devices were named", chosen.size()),
        call_with(search.request, "--devices " + parts.front().unit().partition_uuid)};
  return chosen;
}

/// Handles devices that only OpenCL lists. No variable selects them, and jobs cannot lease them.
/// But the guard limits memory and time on them, so a job may request a part of their memory and
/// time.
std::optional<Result<Candidates>> by_opencl(const Search& search, const std::vector<Unit>& units) {
  if (!search.request.memory_bytes || search.request.gpus) return std::nullopt;
  Candidates chosen;
  for (const Unit& unit : units)
    for (const model::Device& device : search.snapshot.devices)
      if (device.index == unit.device && device.kind == model::DeviceKind::kOpenCl)
        chosen.push_back(candidate_of(device, search.snapshot, search.ledger));
  if (chosen.empty() || chosen.size() < units.size()) return std::nullopt;
  for (const Candidate& c : chosen)
    if (c.free_bytes.value_or(0) < *search.request.memory_bytes)
      return no_memory(search, {c}, 1, *search.request.memory_bytes);
  return chosen;
}

Result<Candidates> by_name(const Search& search, const std::vector<Unit>& units) {
  if (auto devices = by_opencl(search, units)) return *std::move(devices);
  auto chosen = all_named(search, units);
  if (!chosen) return chosen;
  const auto need = search.request.memory_bytes;
  const int count = search.request.gpus.value_or(static_cast<int>(units.size()));
  if (static_cast<std::size_t>(count) > units.size())
    return Error{ErrorCode::kInvalidArgument, "E0418",
                 text("--gpus {} does not match the number of devices that --devices names: {}",
                      count, units.size()),
                 text("omit {}, or name more devices", "--gpus")};
  if (static_cast<std::size_t>(count) < units.size())
    return need ? by_memory(search, *chosen, count, *need) : for_itself(search, *chosen, count);
  for (const Candidate& c : *chosen) {
    if (need && c.free_bytes.value_or(0) < *need) return no_memory(search, {c}, 1, *need);
    if (need && !has_share(c, search)) return no_share(search, {c}, 1);
    // Without --memory, the job needs the whole device, so no other job may have a lease on it.
    if (!need && c.lease != nullptr)
      return Error{ErrorCode::kRefused, "E0412", held(c, search), "berth jobs"};
  }
  return chosen;
}

/// Returns the most GPUs that one job can have on this machine. If there are none, returns 1, so
/// that the request for one GPU fails with the right error.
int all_of(const Search& search) {
  std::map<model::Vendor, int> whole;
  for (const Candidate& c : visible_of(search))
    if (c.partition == nullptr &&
        (c.obstacle == Obstacle::kNone || c.obstacle == Obstacle::kNoAnswer ||
         c.obstacle == Obstacle::kTaken || c.obstacle == Obstacle::kLeased))
      ++whole[c.device->vendor];
  int most = 1;
  for (const auto& [vendor, count] : whole) most = std::max(most, count);
  return most;
}

Result<Candidates> decide(const Search& search, std::vector<std::string>& reasons) {
  const model::Request& request = search.request;
  const int share = request.share_permille.value_or(model::kWholePermille);
  if (share < 1 || share > model::kWholePermille)
    return Error{ErrorCode::kInvalidArgument, "E0102",
                 text("'{}' is not a share of a device", show_share(share)),
                 text("write a part of the whole, such as 30% or 0.3")};
  if (request.share_permille && !request.memory_bytes)
    return Error{ErrorCode::kInvalidArgument, "E0013",
                 text("a share is a part of a shared GPU: use {} with {}", "--share", "--memory"),
                 call_with(request, "--memory 8GiB --share 30%")};
  if (request.gpus == 0) {
    reasons.push_back(text("on the CPU: requested"));
    return Candidates{};
  }
  if (!request.devices.empty()) {
    const auto units = model::select_devices(search.snapshot.devices, request.devices);
    if (!units) return units.error();
    const auto is_cpu = [&](const model::Device& d) {
      return d.index == units->front().device && d.kind == model::DeviceKind::kCpu;
    };
    if (units->size() == 1 &&
        std::any_of(search.snapshot.devices.begin(), search.snapshot.devices.end(), is_cpu) &&
        !request.memory_bytes && !request.gpus) {
      reasons.push_back(text("on the CPU: requested"));
      return Candidates{};
    }
    return by_name(search, *units);
  }
  if (request.memory_bytes)
    return by_memory(search, visible_of(search), request.gpus.value_or(1), *request.memory_bytes);
  if (request.all_gpus.value_or(false))
    return for_itself(search, visible_of(search), all_of(search));
  if (request.gpus) return for_itself(search, visible_of(search), *request.gpus);
  return whatever_there_is(search, reasons);
}

std::string why(const Candidate& c, const Search& search) {
  const std::string what = model::unit_words(*c.device, c.unit().partition_uuid);
  const std::string users = users_of(c, search.snapshot);
  if (c.room != nullptr) return text("{}: a MIG partition is made there for the job", what);
  if (c.device->kind == model::DeviceKind::kOpenCl)
    return text("{}: requested; its other users are not known", what);
  if (c.obstacle == Obstacle::kNoAnswer)
    return text("{}: it did not answer, but was requested by name", what);
  if (c.obstacle == Obstacle::kUnreadable) return fmt::format("{}: {}", what, sentence(c.obstacle));
  if (c.device->health == model::Health::kAsleep)
    return text("{}: asleep, wakes when it is used", what);
  if (c.device->processes_unknown)
    return text("{}: its users are not known: {}", what, printable(c.device->note));
  if (c.busy && !users.empty()) return text("{}: shared with {}", what, users);
  if (c.busy || (c.partition == nullptr && model::holds_unaccounted(*c.device, search.snapshot)))
    return text("{}: memory is in use, but no visible process uses it", what);
  if (c.device->health == model::Health::kDegraded)
    return text("{}: free, but degraded: see berth ls", what);
  return text("{}: free", what);
}

}  // namespace

Result<model::Placement> place(const model::Request& request, const model::Snapshot& snapshot,
                               const model::Ledger& ledger) {
  Search search{request, snapshot, ledger, candidates_of(snapshot, ledger),
                inherited_visibility(request, snapshot)};
  leave_out_processor_graphics(search);
  leave_out_excluded(search.all, request);
  model::Placement placement;
  const auto chosen = decide(search, placement.reasons);
  if (!chosen) return chosen.error();
  for (const Candidate& c : *chosen) {
    placement.devices.push_back(c.device->index);
    placement.partitions.push_back(c.unit().partition_uuid);
    placement.reasons.push_back(why(c, search));
  }
  std::vector<const model::Device*> devices;
  for (const Candidate& c : *chosen) devices.push_back(c.device);
  const model::DeviceLink weakest = model::weakest_link(devices);
  // Report the connection only for NVIDIA's GPUs. XGMI links between AMD's GPUs are not read, and
  // could be better.
  if (devices.size() > 1 && devices.front()->vendor == model::Vendor::kNvidia &&
      weakest.connection != model::Connection::kSame &&
      weakest.connection != model::Connection::kUnknown)
    placement.reasons.push_back(
        text("the weakest connection among these devices: {}", model::words(weakest)));
  const auto other_model = [&](const Candidate& c) {
    return c.device->name != chosen->front().device->name;
  };
  if (std::any_of(chosen->begin(), chosen->end(), other_model))
    placement.reasons.push_back(
        text("these GPUs are of different models: the slowest limits the speed"));
  for (const std::string& note : search.visible.notes) placement.reasons.push_back(note);
  const auto processors = set_processors(placement, request, snapshot, ledger);
  if (!processors) return processors.error();
  return placement;
}

Result<model::Placement> place_leased(const model::Request& request,
                                      const std::vector<std::string>& units,
                                      const std::string& affinity,
                                      const model::Snapshot& snapshot) {
  model::Request named = request;
  named.devices = units;
  named.memory_bytes.reset();
  named.share_permille.reset();
  named.all_gpus.reset();
  named.gpus.reset();
  auto placement = place(units.empty() ? request : named, snapshot);
  // The lease has no GPU. If the placement failed or has a GPU, place the request on the CPU. If it
  // has no device, keep it, because its reasons say why the CPU is used.
  if (units.empty() && (!placement || !placement->devices.empty()))
    placement = place(on_cpu(request), snapshot);
  if (placement && !affinity.empty()) {
    placement->cpus = affinity;
    if (request.cpus) placement->threads = *request.cpus;
  }
  return placement;
}

}  // namespace berth::policy
