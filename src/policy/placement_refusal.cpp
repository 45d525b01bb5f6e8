#include "policy/placement_refusal.hpp"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/device_use.hpp"
#include "policy/affinity.hpp"

namespace berth::policy {

Candidates visible_of(const Search& search) {
  Candidates out;
  for (const Candidate& c : search.all)
    if (search.visible.allows(c.unit().device, c.unit().partition_uuid)) out.push_back(c);
  return out;
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

bool has_share(const Candidate& c, const Search& search) {
  return c.share_taken_permille + search.request.share_permille.value_or(0) <=
         model::kWholePermille;
}

namespace {

// The following functions make parts of sentences.

/// Rounds free memory down to a value for --memory.
std::string memory_to_ask_for(std::uint64_t free) {
  return free >= (1ULL << 30) ? fmt::format("{}GiB", free >> 30)
                              : fmt::format("{}MiB", std::max<std::uint64_t>(1, free >> 20));
}

/// Lists the leases on a candidate, with their memory: "job 12 (zhao); job 14 (li) 8.0 GiB".
std::string leases_of(const Candidate& c, const Search& search) {
  std::string out;
  const std::string id = unit_id(*c.device, c.partition);
  for (const model::Holding& one : search.ledger.holdings) {
    if (one.unit != id) continue;
    out += out.empty() ? "" : "; ";
    // Job 0 means that no job of this broker has the lease.
    if (one.job == 0) {
      out += one.user.empty() ? text("drained: it gets no new jobs")
                              : text("a job of another user's broker");
      continue;
    }
    out += one.user.empty() ? text("job {}", one.job_words())
                            : text("job {} ({})", one.job_words(), printable(one.user));
    if (one.stuck_pid != 0)
      out += " " + text("has ended, but its process {} cannot be killed", one.stuck_pid);
    if (one.memory_bytes != 0) out += " " + show_bytes(one.memory_bytes);
    if (one.share_permille != 0) out += " " + show_share(one.share_permille);
  }
  return out;
}

std::string holders(const Candidates& candidates, const Search& search) {
  constexpr std::size_t kMostLines = 4;
  const auto taken =
      only(candidates, [](const Candidate& c) { return c.busy || c.obstacle != Obstacle::kNone; });
  std::string out = narrowed(search.visible, search.all);
  if (!out.empty()) out = "\n  " + out;
  for (std::size_t i = 0; i < taken.size() && i < kMostLines; ++i)
    out += "\n  " + held(taken[i], search);
  if (taken.size() > kMostLines) out += "\n  " + text("and {} more", taken.size() - kMostLines);
  return out;
}

// The following functions make the errors.

std::string counted(int count, const std::string& name) {
  return count == 1 ? name : fmt::format("{} × {}", count, name);
}

Error none_here(const Search& search) {
  const model::Driver& driver = search.snapshot.driver;
  const bool broken = driver.state == "error" || driver.state == "no answer";
  // A driver that has failed may not list all of its devices.
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
    message += "\n  " + text("the driver cannot access: {}", counted(count, name));
  for (const auto& [name, count] : not_managed)
    message += "\n  " + text("listed, but not managed by Berth: {}", counted(count, name));
  if (broken && !driver.message.empty()) message += "\n  " + driver.message;
  const std::string cpu = call_with(search.request, "--cpu");
  return {ErrorCode::kNoDevice, "E0411", std::move(message),
          broken && !driver.hint.empty() ? driver.hint + "\n" + cpu : cpu};
}

/// Returns commands that name devices whose processes could not be read. Only the user can know
/// that nobody else computes on such a device.
std::string by_name_where_unknown(const Search& search, const Candidates& usable, int count) {
  const auto chosen = choose(only(usable,
                                  [](const Candidate& c) {
                                    return c.device->processes_unknown && c.partition == nullptr &&
                                           c.lease == nullptr;
                                  }),
                             count, {});
  if (chosen.empty()) return {};
  std::string list;
  bool root_sees = false;
  for (const Candidate& c : chosen) {
    list += (list.empty() ? "" : ",") + std::to_string(c.device->index);
    root_sees = root_sees || (c.device->processes_unknown == model::Absence::kNoPermission &&
                              c.device->vendor != model::Vendor::kNvidia);
  }
  std::string hint = call_with(search.request, "--devices " + list);
  if (root_sees)
    hint += "\n" + text("{} sees the processes of all users", "sudo berth serve --system");
  return hint;
}

/// Returns a command that would succeed now, for the hint.
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
  if (hint.empty()) hint = by_name_where_unknown(search, usable, count);
  return hint.empty() ? call_with(search.request, "--cpu") : hint;
}

/// Whether the device may become usable without an administrator: a device that does not answer may
/// answer again, and a leased one may be returned.
bool may_come_free(const Candidate& c) {
  return c.obstacle == Obstacle::kNone || c.obstacle == Obstacle::kNoAnswer ||
         c.obstacle == Obstacle::kTaken || c.obstacle == Obstacle::kLeased;
}

/// Returns a command that requests the most devices that one job can have here. If there is none,
/// returns a command that would succeed now.
std::string as_many_as_are_here(const Search& search, const Candidates& visible, int count) {
  const auto possible = only(visible, may_come_free);
  for (int fewer = count - 1; fewer >= 1; --fewer)
    if (!choose(possible, fewer, {}).empty())
      return call_with(search.request, fmt::format("--gpus {}", fewer));
  return instead(search, visible, count);
}

Error too_few(const Search& search, const Candidates& visible, std::size_t here, int count) {
  std::string message = text_n("{} GPU is here, requested: {}", "{} GPUs are here, requested: {}",
                               static_cast<long long>(here), here, count);
  const auto parted = only(search.all, [](const Candidate& c) { return c.partition != nullptr; });
  if (!parted.empty() && count > 1)
    message += "\n  " + text(
                            "a GPU with MIG enabled does not count, because CUDA shows a program "
                            "only one partition");
  return {ErrorCode::kNoDevice, "E0411", std::move(message),
          as_many_as_are_here(search, visible, count)};
}

Error hidden(const Search& search, const Candidates& visible, std::size_t left, int count) {
  return {ErrorCode::kRefused, "E0416",
          text_n("{} allows {} of {} GPUs, but {} was requested",
                 "{} allows {} of {} GPUs, but {} were requested", count, search.visible.variables,
                 left, search.all.size(), count),
          left > 0 ? instead(search, visible, count)
                   : text("unset the variable, or: {}", call_with(search.request, "--cpu"))};
}

std::size_t whole_devices(const Candidates& from) {
  return static_cast<std::size_t>(std::count_if(
      from.begin(), from.end(), [](const Candidate& c) { return c.partition == nullptr; }));
}

/// Makes error E0420, which means that the job cannot start even if all other jobs end.
Error never(const Search& search, std::string message, const Candidates& visible, int count) {
  return {ErrorCode::kNoDevice, "E0420", std::move(message), instead(search, visible, count)};
}

/// Makes the error if too few devices remain because others are lost, prohibited or otherwise
/// unusable.
std::optional<Error> too_few_usable(const Search& search, const Candidates& visible, int count) {
  const auto possible = only(visible, may_come_free);
  if (!choose(possible, count, {}).empty()) return std::nullopt;
  return never(search,
               text_n("{} GPU of this machine can be used, {} were requested",
                      "{} GPUs of this machine can be used, {} were requested",
                      static_cast<long long>(possible.size()), possible.size(), count) +
                   holders(visible, search),
               visible, count);
}

/// Returns the hint. If too few devices answer, it starts with `berth doctor`, because waiting for
/// other jobs does not help.
std::string instead_of_silence(const Search& search, const Candidates& visible, int count) {
  const auto speaking = only(visible, [](const Candidate& c) {
    return may_come_free(c) && c.obstacle != Obstacle::kNoAnswer;
  });
  const std::string hint = instead(search, visible, count);
  return choose(speaking, count, {}).empty() ? "berth doctor\n" + hint : hint;
}

/// Makes the error if too few devices have the requested memory, even when they are idle.
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

}  // namespace

std::string held(const Candidate& c, const Search& search) {
  const std::string users = users_of(c, search.snapshot);
  if (c.lease != nullptr) return text("{}: {}", label(c), leases_of(c, search));
  if (c.obstacle != Obstacle::kNone) return text("{}: {}", label(c), sentence(c.obstacle));
  if (c.room != nullptr)
    return c.busy ? text("{}: no partition can be made there now: {}", label(c),
                         c.room->busy.empty() ? text("it has no free memory") : c.room->busy)
                  : text("{}: a partition can be made there", label(c));
  if (c.device->processes_unknown)
    return text("{}: its users are not known: {}", label(c), printable(c.device->note));
  if (!users.empty()) return text("{}: {}", label(c), users);
  return c.busy ? text("{}: memory is in use, but no visible process uses it", label(c))
                : text("{}: free", label(c));
}

Error none_free(const Search& search, const Candidates& visible, int count) {
  if (choose(visible, count, {}).empty())
    return never(search, text("several GPUs for one job must be whole GPUs of one vendor"), visible,
                 count);
  if (auto error = too_few_usable(search, visible, count)) return *std::move(error);
  const std::size_t idle = idle_of(usable_of(visible)).size();
  std::string message =
      text_n("{} of {} GPUs is free, {} wanted", "{} of {} GPUs are free, {} wanted",
             static_cast<long long>(idle), idle, visible.size(), count);
  if (idle >= static_cast<std::size_t>(count))
    message += "\n  " + text("several GPUs for one job must be whole GPUs of one vendor");
  return {ErrorCode::kRefused, "E0412", message + holders(visible, search),
          instead_of_silence(search, visible, count)};
}

Error no_share(const Search& search, const Candidates& enough, int count) {
  const std::string share = show_share(*search.request.share_permille);
  const std::string message =
      count == 1 ? text("no device with enough memory has {} of its time free", share)
                 : text("fewer than {} devices have enough memory and {} of their time free", count,
                        share);
  return {ErrorCode::kRefused, "E0412", message + holders(enough, search),
          instead(search, enough, 1)};
}

Error no_memory(const Search& search, const Candidates& visible, int count, std::uint64_t need) {
  if (auto error = too_large(search, visible, count, need)) return *std::move(error);
  if (auto error = too_few_usable(search, visible, count)) return *std::move(error);
  const auto usable = usable_of(visible);
  const auto enough =
      only(usable, [&](const Candidate& c) { return c.free_bytes.value_or(0) >= need; });
  std::string message = count == 1 ? text("no device has {} free", show_bytes(need))
                                   : text_n("{} device has {} free, {} were requested",
                                            "{} devices have {} free, {} were requested",
                                            static_cast<long long>(enough.size()), enough.size(),
                                            show_bytes(need), count);
  if (usable.empty())
    return {ErrorCode::kRefused, "E0412", message + holders(visible, search),
            instead_of_silence(search, visible, count)};
  const Candidate& best = freest(usable);
  if (!best.free_bytes)
    return {ErrorCode::kRefused, "E0412",
            message + "\n  " + text("the devices do not report how much memory is free"),
            choose(idle_of(usable), 1, {}).empty() ? instead(search, usable, 1)
                                                   : call_with(search.request, "--gpus 1")};
  message += "\n  " +
             text("the most free memory is on {}: {}", label(best), show_bytes(*best.free_bytes)) +
             holders(usable, search);
  return {ErrorCode::kRefused, "E0412", std::move(message), instead(search, visible, 1)};
}

std::optional<Error> too_few_at_all(const Search& search, const Candidates& visible, int count) {
  if (search.all.empty()) return none_here(search);
  const std::size_t here = count == 1 ? search.all.size() : whole_devices(search.all);
  if (here < static_cast<std::size_t>(count)) return too_few(search, visible, here, count);
  const std::size_t left = count == 1 ? visible.size() : whole_devices(visible);
  if (left < static_cast<std::size_t>(count)) return hidden(search, visible, left, count);
  return std::nullopt;
}

}  // namespace berth::policy
