#include "policy/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "model/device_selector.hpp"
#include "model/device_use.hpp"
#include "policy/affinity.hpp"
#include "policy/candidates.hpp"
#include "policy/visible.hpp"

namespace berth::policy {
namespace {

using Candidates = std::vector<Candidate>;

/// What the question is about, gathered once.
struct Search {
  const model::Request& request;
  const model::Snapshot& snapshot;
  const model::Ledger& ledger;
  Candidates all;
  Visible visible;
};

Candidates visible_of(const Search& search) {
  Candidates out;
  for (const Candidate& c : search.all)
    if (search.visible.allows(c.unit().device, c.unit().partition_uuid)) out.push_back(c);
  return out;
}

template <typename Predicate>
Candidates only(const Candidates& from, Predicate&& predicate) {
  Candidates out;
  std::copy_if(from.begin(), from.end(), std::back_inserter(out), predicate);
  return out;
}

/// Where a card is, processor graphics are given only by name: a job that got them would find CUDA
/// or ROCm hidden, beside a card that it could have shared.
void leave_out_processor_graphics(Search& search) {
  const auto cards =
      only(visible_of(search), [](const Candidate& c) { return !processor_graphics(*c.device); });
  if (cards.empty() || !search.request.devices.empty()) return;
  search.all = only(search.all, [](const Candidate& c) { return !processor_graphics(*c.device); });
}

Candidates usable_of(const Candidates& from) {
  return only(from, [](const Candidate& c) { return c.obstacle == Obstacle::kNone; });
}

Candidates idle_of(const Candidates& from) {
  return only(from, [](const Candidate& c) { return !c.busy; });
}

const Candidate& freest(const Candidates& from) {
  return *std::max_element(from.begin(), from.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.free_bytes.value_or(0), -a.device->index) <
           std::tuple(b.free_bytes.value_or(0), -b.device->index);
  });
}

// Sentences.

/// A size that is certainly free, as --memory takes it.
std::string memory_to_ask_for(std::uint64_t free) {
  return free >= (1ULL << 30) ? fmt::format("{}GiB", free >> 30)
                              : fmt::format("{}MiB", std::max<std::uint64_t>(1, free >> 20));
}

/// "job 12 (zhao); job 14 (li) 8.0 GiB"
std::string leases_of(const Candidate& c, const Search& search) {
  std::string out;
  const std::string id = unit_id(*c.device, c.partition);
  for (const model::Holding& one : search.ledger.holdings) {
    if (one.unit != id) continue;
    out += out.empty() ? "" : "; ";
    // Job 0: nobody's.
    if (one.job == 0) {
      out += one.user.empty() ? text("drained: it gets no new jobs")
                              : text("a job of another user's broker");
      continue;
    }
    out += one.user.empty() ? text("job {}", one.job)
                            : text("job {} ({})", one.job, printable(one.user));
    if (one.memory_bytes != 0) out += " " + show_bytes(one.memory_bytes);
  }
  return out;
}

std::string held(const Candidate& c, const Search& search) {
  const std::string users = users_of(c, search.snapshot);
  if (c.lease != nullptr) return fmt::format("{}: {}", label(c), leases_of(c, search));
  if (c.obstacle != Obstacle::kNone) return fmt::format("{}: {}", label(c), sentence(c.obstacle));
  if (!users.empty()) return fmt::format("{}: {}", label(c), users);
  return c.busy ? text("{}: memory is in use that no process here accounts for", label(c))
                : text("{}: free", label(c));
}

std::string holders(const Candidates& candidates, const Search& search) {
  constexpr std::size_t kMostLines = 4;
  const auto taken =
      only(candidates, [](const Candidate& c) { return c.busy || c.obstacle != Obstacle::kNone; });
  std::string out;
  for (std::size_t i = 0; i < taken.size() && i < kMostLines; ++i)
    out += "\n  " + held(taken[i], search);
  if (taken.size() > kMostLines) out += "\n  " + text("and {} more", taken.size() - kMostLines);
  return out;
}

// Refusals.

std::string counted(int count, const std::string& name) {
  return count == 1 ? name : fmt::format("{} × {}", count, name);
}

Error none_here(const Search& search) {
  const model::Driver& driver = search.snapshot.driver;
  const bool broken = driver.state == "error" || driver.state == "no answer";
  // A driver that fails hides what there is.
  std::string message =
      broken ? text("no GPU of this machine can be used") : text("there is no GPU on this machine");
  std::map<std::string, int> not_managed, out_of_reach;
  for (const model::Device& device : search.snapshot.devices) {
    if (device.managed) continue;
    const bool drivers =
        broken && device.vendor == model::Vendor::kNvidia && device.kernel_driver != "vfio-pci";
    ++(drivers ? out_of_reach : not_managed)[printable(device.name)];
  }
  for (const auto& [name, count] : out_of_reach)
    message += "\n  " + text("the driver does not reach it: {}", counted(count, name));
  for (const auto& [name, count] : not_managed)
    message += "\n  " + text("seen, but not managed by Berth: {}", counted(count, name));
  if (broken && !driver.message.empty()) message += "\n  " + driver.message;
  const std::string cpu = call_with(search.request, "--cpu");
  return {ErrorCode::kNoDevice, "E0411", std::move(message),
          broken && !driver.hint.empty() ? driver.hint + "\n" + cpu : cpu};
}

/// What would work now, for the hint.
std::string instead(const Search& search, const Candidates& visible, int count) {
  std::string hint;
  const auto usable = usable_of(visible);
  for (int fewer = count - 1; fewer >= 1 && hint.empty(); --fewer)
    if (!choose(idle_of(usable), fewer, {}).empty())
      hint = call_with(search.request, fmt::format("--gpus {}", fewer));
  if (!usable.empty()) {
    const auto free = freest(usable).free_bytes.value_or(0);
    if (free >= (1ULL << 20))
      hint += (hint.empty() ? "" : "\n") +
              call_with(search.request, fmt::format("--memory {}", memory_to_ask_for(free)));
  }
  return hint.empty() ? call_with(search.request, "--cpu") : hint;
}

Error too_few(const Search& search, const Candidates& visible, std::size_t here, int count) {
  std::string message =
      text_n("{} GPU is here, {} were asked for", "{} GPUs are here, {} were asked for",
             static_cast<long long>(here), here, count);
  const auto parted = only(search.all, [](const Candidate& c) { return c.partition != nullptr; });
  if (!parted.empty() && count > 1)
    message +=
        "\n  " + text("a GPU with MIG on does not count: CUDA shows a program one partition");
  return {ErrorCode::kNoDevice, "E0411", std::move(message), instead(search, visible, count)};
}

Error hidden(const Search& search, const Candidates& visible, std::size_t left, int count) {
  return {ErrorCode::kRefused, "E0416",
          text_n("{} leaves {} of {} GPUs, {} was asked for",
                 "{} leaves {} of {} GPUs, {} were asked for", count, search.visible.variables,
                 left, search.all.size(), count),
          left > 0 ? instead(search, visible, count)
                   : text("unset the variable, or: {}", call_with(search.request, "--cpu"))};
}

std::size_t whole_devices(const Candidates& from) {
  return static_cast<std::size_t>(std::count_if(
      from.begin(), from.end(), [](const Candidate& c) { return c.partition == nullptr; }));
}

/// Nothing that ends would mend it, so nobody should wait for it: E0420 instead of E0412.
Error never(const Search& search, std::string message, const Candidates& visible, int count) {
  return {ErrorCode::kNoDevice, "E0420", std::move(message), instead(search, visible, count)};
}

/// A silent device may answer again, and a taken one be given back; the others need a person.
bool may_come_free(const Candidate& c) {
  return c.obstacle == Obstacle::kNone || c.obstacle == Obstacle::kNoAnswer ||
         c.obstacle == Obstacle::kTaken || c.obstacle == Obstacle::kLeased;
}

/// Too many of the devices are lost, forbidden or the like.
std::optional<Error> too_few_usable(const Search& search, const Candidates& visible, int count) {
  const auto possible = only(visible, may_come_free);
  if (!choose(possible, count, {}).empty()) return std::nullopt;
  return never(search,
               text_n("{} GPU of this machine can be used, {} were asked for",
                      "{} GPUs of this machine can be used, {} were asked for",
                      static_cast<long long>(possible.size()), possible.size(), count) +
                   holders(visible, search),
               visible, count);
}

/// What is waited for is that a device answers again: no job's end brings that about.
std::string instead_of_silence(const Search& search, const Candidates& visible, int count) {
  const auto speaking = only(visible, [](const Candidate& c) {
    return may_come_free(c) && c.obstacle != Obstacle::kNoAnswer;
  });
  const std::string hint = instead(search, visible, count);
  return choose(speaking, count, {}).empty() ? "berth doctor\n" + hint : hint;
}

Error none_free(const Search& search, const Candidates& visible, int count) {
  if (choose(visible, count, {}).empty())
    return never(search, text("several GPUs for one job are whole ones of one vendor"), visible,
                 count);
  if (auto error = too_few_usable(search, visible, count)) return *std::move(error);
  const std::size_t idle = idle_of(usable_of(visible)).size();
  std::string message =
      text_n("{} of {} GPUs is free, {} wanted", "{} of {} GPUs are free, {} wanted",
             static_cast<long long>(idle), idle, visible.size(), count);
  if (idle >= static_cast<std::size_t>(count))
    message += "\n  " + text("several GPUs for one job are whole ones of one vendor");
  return {ErrorCode::kRefused, "E0412", message + holders(visible, search),
          instead_of_silence(search, visible, count)};
}

/// More than the devices hold when nobody uses them.
std::optional<Error> too_large(const Search& search, const Candidates& visible, int count,
                               std::uint64_t need) {
  const auto fits = [&](const Candidate& c) { return c.capacity_bytes.value_or(need) >= need; };
  if (visible.empty() || !choose(only(visible, fits), count, {}).empty()) return std::nullopt;
  const auto largest =
      std::max_element(visible.begin(), visible.end(), [](const Candidate& a, const Candidate& b) {
        return a.capacity_bytes.value_or(0) < b.capacity_bytes.value_or(0);
      });
  std::string message =
      count == 1 ? text("no device has {} of memory", show_bytes(need))
                 : text("there are no {} devices with {} of memory", count, show_bytes(need));
  if (largest->capacity_bytes)
    message += "\n  " + text("the largest is {} with {}", label(*largest),
                             show_bytes(*largest->capacity_bytes));
  return never(search, std::move(message), visible, 1);
}

Error no_memory(const Search& search, const Candidates& visible, int count, std::uint64_t need) {
  if (auto error = too_large(search, visible, count, need)) return *std::move(error);
  if (auto error = too_few_usable(search, visible, count)) return *std::move(error);
  const auto usable = usable_of(visible);
  const auto enough =
      only(usable, [&](const Candidate& c) { return c.free_bytes.value_or(0) >= need; });
  std::string message = count == 1 ? text("no device has {} free", show_bytes(need))
                                   : text_n("{} device has {} free, {} were asked for",
                                            "{} devices have {} free, {} were asked for",
                                            static_cast<long long>(enough.size()), enough.size(),
                                            show_bytes(need), count);
  if (usable.empty())
    return {ErrorCode::kRefused, "E0412", message + holders(visible, search),
            instead_of_silence(search, visible, count)};
  const Candidate& best = freest(usable);
  if (!best.free_bytes)
    return {ErrorCode::kRefused, "E0412",
            message + "\n  " + text("the devices do not tell how much memory is free"),
            call_with(search.request, "--gpus 1")};
  message += "\n  " + text("the freest is {} with {}", label(best), show_bytes(*best.free_bytes)) +
             holders(usable, search);
  return {ErrorCode::kRefused, "E0412", std::move(message), instead(search, visible, 1)};
}

/// Why `count` are not to be had, before asking whether they are free.
std::optional<Error> too_few_at_all(const Search& search, const Candidates& visible, int count) {
  if (search.all.empty()) return none_here(search);
  const std::size_t here = count == 1 ? search.all.size() : whole_devices(search.all);
  if (here < static_cast<std::size_t>(count)) return too_few(search, visible, here, count);
  const std::size_t left = count == 1 ? visible.size() : whole_devices(visible);
  if (left < static_cast<std::size_t>(count)) return hidden(search, visible, left, count);
  return std::nullopt;
}

// The ways to ask.

Result<Candidates> for_itself(const Search& search, const Candidates& visible, int count) {
  if (const auto error = too_few_at_all(search, visible, count)) return *error;
  auto chosen = choose(idle_of(usable_of(visible)), count, {});
  if (chosen.empty()) return none_free(search, visible, count);
  return chosen;
}

Result<Candidates> by_memory(const Search& search, const Candidates& visible, int count,
                             std::uint64_t need) {
  if (const auto error = too_few_at_all(search, visible, count)) return *error;
  const auto pool = only(usable_of(visible),
                         [&](const Candidate& c) { return c.free_bytes && *c.free_bytes >= need; });
  auto chosen = choose(pool, count, need);
  if (chosen.empty()) return no_memory(search, visible, count, need);
  return chosen;
}

/// Nothing was asked for: one device, shared rather than none; no device at all is no error.
Result<Candidates> whatever_there_is(const Search& search, std::vector<std::string>& reasons) {
  const auto visible = visible_of(search);
  const auto usable = usable_of(visible);
  auto idle = choose(idle_of(usable), 1, {});
  if (!idle.empty()) return idle;
  // Shared with strangers, of whom nobody promised anything; never with a job.
  const auto unleased = only(usable, [](const Candidate& c) { return c.lease == nullptr; });
  if (!unleased.empty()) return Candidates{freest(unleased)};
  if (std::any_of(visible.begin(), visible.end(),
                  [](const Candidate& c) { return c.lease != nullptr; }))
    return none_free(search, visible, 1);
  if (search.all.empty()) {
    const std::string& state = search.snapshot.driver.state;
    const bool broken = state == "error" || state == "no answer";
    reasons.push_back(broken ? text("on the CPU: no GPU of this machine can be used")
                             : text("on the CPU: there is no GPU here"));
    if (broken) reasons.push_back(search.snapshot.driver.message);
  } else if (visible.empty()) {
    reasons.push_back(
        search.visible.hides_all
            ? text("on the CPU: {} was set before and hides every GPU", search.visible.variables)
            : text("on the CPU: {} was set before and leaves no GPU of this machine",
                   search.visible.variables));
  } else {
    reasons.push_back(text("on the CPU: no GPU can be used"));
    for (const Candidate& c : visible) reasons.push_back(held(c, search));
  }
  return Candidates{};
}

Error not_for_jobs(const model::Device& device) {
  const std::string name = printable(device.name);
  std::string message =
      device.kind == model::DeviceKind::kCpu ? text("the CPU is always there: name GPUs only")
      : device.kind == model::DeviceKind::kOpenCl
          ? text("{} is an OpenCL device: no variable selects one, the program does it itself",
                 name)
      : model::out_of_reach(device) ? text("the driver does not reach it: {}", name)
                                    : text("{} is seen, but not managed by Berth", name);
  return {ErrorCode::kInvalidArgument, "E0418", std::move(message), "berth ls"};
}

/// A GPU with MIG on stands for the best of its partitions.
Result<Candidate> named(const Search& search, const Unit& unit) {
  const auto mine = only(search.all, [&](const Candidate& c) {
    return c.device->index == unit.device && (unit.partition_uuid.empty() || c.unit() == unit);
  });
  if (mine.empty()) {
    for (const model::Device& device : search.snapshot.devices)
      if (device.index == unit.device) return not_for_jobs(device);
    return Error{ErrorCode::kInternal, "E7001", text("a device vanished while it was chosen"), ""};
  }
  const auto visible = only(mine, [&](const Candidate& c) {
    return search.visible.allows(c.unit().device, c.unit().partition_uuid);
  });
  if (visible.empty())
    return Error{ErrorCode::kRefused, "E0416",
                 text("{} does not allow {}", search.visible.variables, label(mine.front())),
                 text("unset the variable, or name one of its devices")};
  const auto usable = usable_of(visible);
  // Silence may pass, and the user knows the machine: what is named and may work is tried.
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
        text("CUDA shows a program one MIG partition and nothing beside it; {} devices were named",
             chosen.size()),
        call_with(search.request, "--devices " + parts.front().unit().partition_uuid)};
  return chosen;
}

Result<Candidates> by_name(const Search& search, const std::vector<Unit>& units) {
  auto chosen = all_named(search, units);
  if (!chosen) return chosen;
  const auto need = search.request.memory_bytes;
  const int count = search.request.gpus.value_or(static_cast<int>(units.size()));
  if (static_cast<std::size_t>(count) > units.size())
    return Error{ErrorCode::kInvalidArgument, "E0418",
                 text("{} GPUs were asked for, but {} named", count, units.size()),
                 text("leave {} out, or name more", "--gpus")};
  if (static_cast<std::size_t>(count) < units.size())
    return need ? by_memory(search, *chosen, count, *need) : for_itself(search, *chosen, count);
  for (const Candidate& c : *chosen) {
    if (need && c.free_bytes.value_or(0) < *need) return no_memory(search, {c}, 1, *need);
    // Whole: who has memory of it keeps it.
    if (!need && c.lease != nullptr)
      return Error{ErrorCode::kRefused, "E0412", held(c, search), "berth jobs"};
  }
  return chosen;
}

Result<Candidates> decide(const Search& search, std::vector<std::string>& reasons) {
  const model::Request& request = search.request;
  if (request.gpus == 0) {
    reasons.push_back(text("on the CPU: asked for"));
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
      reasons.push_back(text("on the CPU: asked for"));
      return Candidates{};
    }
    return by_name(search, *units);
  }
  if (request.memory_bytes)
    return by_memory(search, visible_of(search), request.gpus.value_or(1), *request.memory_bytes);
  if (request.gpus) return for_itself(search, visible_of(search), *request.gpus);
  return whatever_there_is(search, reasons);
}

std::string why(const Candidate& c, const Search& search) {
  const std::string what = model::unit_words(*c.device, c.unit().partition_uuid);
  const std::string users = users_of(c, search.snapshot);
  if (c.obstacle == Obstacle::kNoAnswer) return text("{}: it did not answer, but was named", what);
  if (c.obstacle == Obstacle::kUnreadable) return fmt::format("{}: {}", what, sentence(c.obstacle));
  if (c.device->health == model::Health::kAsleep)
    return text("{}: asleep, wakes when it is used", what);
  if (c.busy && !users.empty()) return text("{}: shared with {}", what, users);
  if (c.busy || (c.partition == nullptr && holds_unaccounted(*c.device, search.snapshot)))
    return text("{}: memory is in use that no process here accounts for", what);
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
  model::Placement placement;
  const auto chosen = decide(search, placement.reasons);
  if (!chosen) return chosen.error();
  for (const Candidate& c : *chosen) {
    placement.devices.push_back(c.device->index);
    placement.partitions.push_back(c.unit().partition_uuid);
    placement.reasons.push_back(why(c, search));
  }
  const auto other_model = [&](const Candidate& c) {
    return c.device->name != chosen->front().device->name;
  };
  if (std::any_of(chosen->begin(), chosen->end(), other_model))
    placement.reasons.push_back(text("these GPUs differ: the slowest sets the pace"));
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
  named.gpus = units.empty() ? std::optional(0) : std::nullopt;
  auto placement = place(named, snapshot);
  if (placement && !affinity.empty()) {
    placement->cpus = affinity;
    if (request.cpus) placement->threads = *request.cpus;
  }
  return placement;
}

}  // namespace berth::policy
