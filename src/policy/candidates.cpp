#include "policy/candidates.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <tuple>

#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "model/busy.hpp"
#include "model/device_use.hpp"
#include "model/topology.hpp"
#include "policy/placement.hpp"

namespace berth::policy {
namespace {

using model::Device;
using model::DeviceKind;
using model::DeviceLink;
using model::Health;
using model::Partition;
using model::Vendor;

constexpr std::uint64_t kMiB = 1ULL << 20;

bool computes(const model::DeviceProcess& process) {
  return process.kind.compute || process.kind.mps || !process.kind.graphics;
}

/// Whether a partition is busy. For some processes, the driver does not tell the partition. Then a
/// partition counts as busy if enough of its memory is in use.
bool partition_busy(const Device& device, const Partition& part, const model::Snapshot& snapshot,
                    const model::Ledger& ledger) {
  if (device.processes_unknown) return true;
  bool somewhere = false;
  for (const model::DeviceProcess& process : snapshot.processes) {
    if (process.device != device.index || !computes(process) ||
        holding_of(process, part.uuid, ledger) != nullptr)
      continue;
    if (process.partition_uuid == part.uuid) return true;
    somewhere = somewhere || process.partition_uuid.empty();
  }
  const std::uint64_t total = part.memory_total_bytes.value_or(0);
  return somewhere &&
         (!part.memory_used_bytes || *part.memory_used_bytes >= std::max(256 * kMiB, total / 20));
}

/// Returns the free memory. If the device uses the host's memory, it is at most the host's free
/// memory.
std::optional<std::uint64_t> free_of(const Device& device, const model::Snapshot& snapshot) {
  const auto& readings = device.readings;
  std::optional<std::uint64_t> free;
  if (readings.memory_total_bytes && readings.memory_used_bytes) {
    const std::uint64_t taken =
        *readings.memory_used_bytes + readings.memory_reserved_bytes.value_or(0);
    free = *readings.memory_total_bytes - std::min(*readings.memory_total_bytes, taken);
  }
  const auto host = snapshot.host.cpu.memory_available_bytes;
  if (!device.memory_unified || !host) return free;
  return free ? std::min(*free, *host) : *host;
}

std::optional<std::uint64_t> capacity_of(const Device& device, const model::Snapshot& snapshot) {
  const auto& readings = device.readings;
  if (!readings.memory_total_bytes) return std::nullopt;
  const std::uint64_t total = *readings.memory_total_bytes;
  const model::CpuBudget& host = snapshot.host.cpu;
  const std::uint64_t limit = host.memory_limit_bytes.value_or(host.memory_total_bytes);
  if (device.memory_unified) return limit == 0 ? total : std::min(total, limit);
  return total - std::min(total, readings.memory_reserved_bytes.value_or(0));
}

Obstacle obstacle_of(const Device& device, bool is_busy) {
  if (device.health == Health::kLost) return Obstacle::kLost;
  if (device.health == Health::kNoAnswer) return Obstacle::kNoAnswer;
  if (model::use_unknown(device)) return Obstacle::kUnreadable;
  if (device.compute_mode == "prohibited") return Obstacle::kProhibited;
  if (device.compute_mode.rfind("exclusive", 0) == 0 && is_busy) return Obstacle::kTaken;
  return Obstacle::kNone;
}

/// Makes a candidate for a partition that does not exist yet. Its obstacle is kNoPartition until
/// leave_out_excluded() finds that the job can use such a partition.
Candidate room_on(const Device& device, const model::MigRoom& room) {
  Candidate candidate;
  candidate.device = &device;
  candidate.room = &room;
  candidate.obstacle = Obstacle::kNoPartition;
  candidate.busy = candidate.strangers = room.now_bytes == 0;
  candidate.free_bytes = room.now_bytes;
  candidate.capacity_bytes = room.most_bytes;
  return candidate;
}

void add_partitions(std::vector<Candidate>& all, const Device& device,
                    const model::Snapshot& snapshot, const model::Ledger& ledger) {
  std::vector<const Partition*> parts;
  for (const Partition& part : device.partitions)
    if (!part.uuid.empty() &&
        std::find(ledger.made.begin(), ledger.made.end(), part.uuid) == ledger.made.end())
      parts.push_back(&part);
  std::sort(parts.begin(), parts.end(), [](const Partition* a, const Partition* b) {
    return std::tie(a->index, a->uuid) < std::tie(b->index, b->uuid);
  });
  for (const Partition* part : parts) {
    Candidate candidate;
    candidate.device = &device;
    candidate.partition = part;
    candidate.busy = partition_busy(device, *part, snapshot, ledger);
    if (part->memory_total_bytes) candidate.capacity_bytes = *part->memory_total_bytes;
    candidate.obstacle = obstacle_of(device, candidate.busy);
    if (part->memory_total_bytes && part->memory_used_bytes)
      candidate.free_bytes =
          *part->memory_total_bytes - std::min(*part->memory_total_bytes, *part->memory_used_bytes);
    all.push_back(candidate);
  }
  const auto room =
      std::find_if(ledger.rooms.begin(), ledger.rooms.end(),
                   [&](const model::MigRoom& one) { return one.device == device.uuid; });
  if (room != ledger.rooms.end()) {
    all.push_back(room_on(device, *room));
  } else if (parts.empty()) {
    Candidate candidate;
    candidate.device = &device;
    candidate.obstacle =
        device.partitions_unknown ? Obstacle::kPartitionsUnknown : Obstacle::kNoPartition;
    candidate.busy = busy(device, snapshot, ledger);
    all.push_back(candidate);
  }
}

/// Subtracts the jobs' promised memory from the free memory, even if a job does not use it yet. If
/// a job uses more than promised, the excess is subtracted, too.
void take_leases(Candidate& candidate, const model::Snapshot& snapshot,
                 const model::Ledger& ledger) {
  if (candidate.room == nullptr) candidate.strangers = candidate.busy;
  const std::string id = unit_id(*candidate.device, candidate.partition);
  for (const model::Holding& one : ledger.holdings) {
    if (one.unit != id) continue;
    if (candidate.lease == nullptr) candidate.lease = &one;
    candidate.busy = true;
    candidate.share_taken_permille += one.share_permille;
    if (one.memory_bytes == 0 && candidate.obstacle == Obstacle::kNone)
      candidate.obstacle = Obstacle::kLeased;
    std::uint64_t used = 0;
    for (const model::DeviceProcess& process : snapshot.processes)
      if (process.device == candidate.device->index && holding_of(process, id, ledger) == &one)
        used += process.memory_bytes.value_or(0);
    if (candidate.free_bytes && one.memory_bytes > used)
      *candidate.free_bytes -= std::min(*candidate.free_bytes, one.memory_bytes - used);
  }
}

// The following functions choose among the candidates.

int integrated(const Candidate& c) {
  return model::processor_graphics(*c.device) ? 1 : 0;
}

int health_rank(const Candidate& c) {
  switch (c.device->health) {
    case Health::kOk:
    case Health::kNotChecked:
      return 0;
    case Health::kDegraded:
      return 1;
    case Health::kAsleep:
      return 2;
    default:
      return 3;
  }
}

/// A sort key for --memory; the lowest comes first. Unused GPUs come before busy ones, and those
/// with the most free memory first. Busy GPUs are sorted by utilization in steps of 10 %, then by
/// the most free memory. MIG partitions with the least free memory come first, so that larger ones
/// stay free.
std::uint64_t load_to_share(const Candidate& c) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t free = std::min(kMost, c.free_bytes.value_or(0) / kMiB);
  if (c.partition != nullptr) return free;
  if (!c.busy) return kMost - free;
  const double percent =
      std::clamp(c.device->readings.utilization_percent.value_or(100), 0.0, 100.0);
  return (static_cast<std::uint64_t>(percent / 10) << 33U) + kMost - free;
}

/// A sort key; the lowest comes first. Without --memory, it is the memory in use in steps of 256
/// MiB, so that a few MiB of the driver do not decide between two idle devices.
std::uint64_t load(const Candidate& c, std::optional<std::uint64_t> need) {
  if (need) return load_to_share(c);
  if (c.partition != nullptr) return c.partition->memory_used_bytes.value_or(0) / (256 * kMiB);
  return c.device->readings.memory_used_bytes.value_or(0) / (256 * kMiB);
}

/// A sort key that is lower for larger partitions, so that the largest of equally free ones comes
/// first. It is equal for all whole devices.
std::uint64_t smallness(const Candidate& c) {
  const std::uint64_t size =
      c.partition == nullptr ? 0 : c.partition->memory_total_bytes.value_or(0) / kMiB;
  return std::numeric_limits<std::uint32_t>::max() - std::min<std::uint64_t>(size, 1U << 30);
}

auto identity(const Candidate& c) {
  return std::tuple(c.device->index, c.partition == nullptr ? 0U : c.partition->index,
                    c.unit().partition_uuid);
}

/// Counts the unused devices that NVLinks or a PCIe switch connect to this one. A job for one
/// device gets a device with few such neighbours, so that groups of connected devices stay whole
/// for larger jobs.
int unused_neighbours(const Candidate& c, const std::vector<Candidate>& pool) {
  if (c.partition != nullptr) return 0;
  return static_cast<int>(std::count_if(pool.begin(), pool.end(), [&](const Candidate& other) {
    if (other.busy || other.partition != nullptr || other.device == c.device) return false;
    return model::link_between(*c.device, *other.device).connection <= model::Connection::kSwitch;
  }));
}

auto cost_of_one(const Candidate& c, const std::vector<Candidate>& pool,
                 std::optional<std::uint64_t> need) {
  const int tpu = c.device->kind == DeviceKind::kTpu ? 1 : 0;
  const int part = c.partition == nullptr ? 0 : 1;
  return std::tuple(integrated(c), c.busy, health_rank(c), tpu, need ? 1 - part : part,
                    need ? 0 : unused_neighbours(c, pool), load(c, need), smallness(c),
                    identity(c));
}

/// Combines domain, bus and device number into one number, whose differences are distances. A
/// device without an address is far from all others.
std::int64_t place_on_bus(const Device& device) {
  std::int64_t place = 0;
  for (std::string_view part : split(device.pci_address, ':')) {
    std::uint32_t number = 0;
    part = part.substr(0, part.find('.'));
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), number, 16);
    if (problem != std::errc() || end == part.data()) return 1LL << 40;
    place = (place << 8) + (number & 0xffffU);
  }
  return place;
}

/// The links between all candidates of a pool, computed once.
class Links {
 public:
  explicit Links(const std::vector<Candidate>& pool) : count_(pool.size()), all_(count_ * count_) {
    for (std::size_t i = 0; i < count_; ++i)
      for (std::size_t k = i; k < count_; ++k)
        all_[i * count_ + k] = all_[k * count_ + i] =
            model::link_between(*pool[i].device, *pool[k].device);
  }
  [[nodiscard]] const DeviceLink& between(std::size_t i, std::size_t k) const {
    return all_[i * count_ + k];
  }

 private:
  std::size_t count_;
  std::vector<DeviceLink> all_;
};

using Set = std::vector<std::size_t>;  // positions in the pool

/// Starts with the device `seed`, and each time adds the device that is nearest to all devices
/// chosen so far. Returns fewer than `count` if the pool has no more devices of this vendor.
Set with_companions(std::size_t seed, const std::vector<Candidate>& pool, const Links& links,
                    std::size_t count, std::optional<std::uint64_t> need) {
  const Device& first = *pool[seed].device;
  const std::int64_t home = place_on_bus(first);
  Set set{seed};
  std::vector<DeviceLink> weakest(pool.size(), DeviceLink{model::Connection::kSame});
  std::vector<bool> is_open(pool.size());
  for (std::size_t i = 0; i < pool.size(); ++i)
    is_open[i] =
        i != seed && pool[i].partition == nullptr && pool[i].device->vendor == first.vendor;
  const auto distance = [&](std::size_t i) {
    const Device& d = *pool[i].device;
    return std::tuple(integrated(pool[i]), pool[i].busy, health_rank(pool[i]),
                      d.name == first.name ? 0 : 1, weakest[i],
                      d.numa_node == first.numa_node ? 0 : 1, std::abs(place_on_bus(d) - home),
                      load(pool[i], need), d.index);
  };
  while (set.size() < count) {
    std::optional<std::size_t> nearest;
    for (std::size_t i = 0; i < pool.size(); ++i) {
      if (!is_open[i]) continue;
      weakest[i] = std::max(weakest[i], links.between(i, set.back()));
      if (!nearest || distance(i) < distance(*nearest)) nearest = i;
    }
    if (!nearest) break;
    is_open[*nearest] = false;
    set.push_back(*nearest);
  }
  return set;
}

auto cost_of_set(const Set& set, const std::vector<Candidate>& pool, const Links& links,
                 std::optional<std::uint64_t> need) {
  int small = 0;
  int in_use = 0;
  int health = 0;
  std::uint64_t sum = 0;
  std::set<std::string_view> models;
  std::set<std::optional<int>> nodes;
  std::vector<int> indices;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = 0;
  DeviceLink weakest{model::Connection::kSame};
  int far = 0;
  for (std::size_t at = 0; at < set.size(); ++at) {
    const Candidate& c = pool[set[at]];
    small += integrated(c);
    in_use += c.busy ? 1 : 0;
    health += health_rank(c);
    sum += load(c, need);
    models.insert(c.device->name);
    nodes.insert(c.device->numa_node);
    indices.push_back(c.device->index);
    first = std::min(first, place_on_bus(*c.device));
    last = std::max(last, place_on_bus(*c.device));
    for (std::size_t other = 0; other < at; ++other) {
      const DeviceLink& link = links.between(set[at], set[other]);
      weakest = std::max(weakest, link);
      far += static_cast<int>(link.connection);
    }
  }
  std::sort(indices.begin(), indices.end());
  return std::tuple(small, in_use, health, models.size(), weakest, far, nodes.size(), last - first,
                    sum, indices);
}

}  // namespace

const model::Holding* holding_of(const model::DeviceProcess& process, const std::string& unit,
                                 const model::Ledger& ledger) {
  if (!process.pid) return nullptr;
  const auto job = std::lower_bound(
      ledger.processes.begin(), ledger.processes.end(), *process.pid,
      [](const model::JobProcess& one, std::int64_t pid) { return one.pid < pid; });
  if (job == ledger.processes.end() || job->pid != *process.pid) return nullptr;
  const auto found = std::find_if(
      ledger.holdings.begin(), ledger.holdings.end(),
      [&](const model::Holding& one) { return one.job == job->job && one.unit == unit; });
  return found == ledger.holdings.end() ? nullptr : &*found;
}

bool busy(const Device& device, const model::Snapshot& snapshot, const model::Ledger& ledger) {
  if (device.processes_unknown) return true;
  const std::string unit = unit_id(device, nullptr);
  for (const model::DeviceProcess& process : snapshot.processes) {
    if (process.device != device.index || holding_of(process, unit, ledger) != nullptr) continue;
    if (model::makes_busy(process, device)) return true;
  }
  return model::has_unseen_users(device, snapshot);
}

void leave_out_excluded(std::vector<Candidate>& all, const model::Request& request) {
  const auto is_excluded = [&](const std::string& unit) {
    return std::find(request.without.begin(), request.without.end(), unit) != request.without.end();
  };
  std::erase_if(all, [&](const Candidate& one) {
    return is_excluded(unit_id(*one.device, nullptr)) ||
           is_excluded(unit_id(*one.device, one.partition));
  });
  if (!request.mig_only.value_or(false) || !request.devices.empty()) return;
  if (request.memory_bytes)
    for (Candidate& one : all)
      if (one.room != nullptr && one.obstacle == Obstacle::kNoPartition)
        one.obstacle = one.lease != nullptr && one.lease->memory_bytes == 0 ? Obstacle::kLeased
                                                                            : Obstacle::kNone;
  const auto is_part = [&](const Candidate& one) {
    return one.partition != nullptr || (one.room != nullptr && request.memory_bytes);
  };
  if (std::any_of(all.begin(), all.end(), is_part))
    std::erase_if(all, [&](const Candidate& one) { return !is_part(one); });
}

std::string unit_id(const Device& device, const Partition* partition) {
  if (partition != nullptr) return partition->uuid;
  return device.uuid.empty() ? device.pci_address : device.uuid;
}

Candidate candidate_of(const Device& device, const model::Snapshot& snapshot,
                       const model::Ledger& ledger) {
  Candidate candidate;
  candidate.device = &device;
  candidate.busy = busy(device, snapshot, ledger);
  candidate.obstacle = obstacle_of(device, candidate.busy);
  candidate.free_bytes = free_of(device, snapshot);
  candidate.capacity_bytes = capacity_of(device, snapshot);
  return candidate;
}

std::vector<Candidate> candidates_of(const model::Snapshot& snapshot, const model::Ledger& ledger) {
  std::vector<const Device*> devices;
  for (const Device& device : snapshot.devices)
    if (device.managed && (device.kind == DeviceKind::kGpu || device.kind == DeviceKind::kTpu))
      devices.push_back(&device);
  std::sort(devices.begin(), devices.end(),
            [](const Device* a, const Device* b) { return a->index < b->index; });
  std::vector<Candidate> all;
  for (const Device* device : devices) {
    if (device->mig_enabled.value_or(false)) {
      add_partitions(all, *device, snapshot, ledger);
      continue;
    }
    all.push_back(candidate_of(*device, snapshot, ledger));
  }
  for (Candidate& candidate : all) take_leases(candidate, snapshot, ledger);
  return all;
}

std::string label(const Candidate& candidate) {
  const DeviceKind kind = candidate.device->kind;
  return fmt::format("{} {}",
                     kind == DeviceKind::kTpu      ? "TPU"
                     : kind == DeviceKind::kOpenCl ? "OpenCL"
                                                   : "GPU",
                     model::unit_name(*candidate.device, candidate.unit().partition_uuid));
}

std::string narrowed(const Visible& visible, const std::vector<Candidate>& all) {
  std::string left;
  bool is_less = false;
  for (const Candidate& one : all)
    if (visible.allows(one.unit().device, one.unit().partition_uuid))
      left += (left.empty() ? "" : ", ") + label(one);
    else
      is_less = true;
  if (!is_less) return {};
  return left.empty() ? text("{} was set and allows no GPU", visible.variables)
                      : text("{} was set and allows only {}", visible.variables, left);
}

std::string users_of(const Candidate& candidate, const model::Snapshot& snapshot,
                     std::size_t most) {
  std::vector<const model::DeviceProcess*> users;
  const std::string& part = candidate.unit().partition_uuid;
  for (const model::DeviceProcess& process : snapshot.processes)
    if (process.device == candidate.device->index &&
        (process.partition_uuid == part || process.partition_uuid.empty()))
      users.push_back(&process);
  std::sort(users.begin(), users.end(), [](const auto* a, const auto* b) {
    return std::tuple(b->memory_bytes.value_or(0), a->host_pid, a->pid) <
           std::tuple(a->memory_bytes.value_or(0), b->host_pid, b->pid);
  });
  std::string out;
  for (std::size_t i = 0; i < users.size() && i < most; ++i) {
    const model::DeviceProcess& user = *users[i];
    const std::string pid = user.pid        ? "pid " + std::to_string(*user.pid)
                            : user.host_pid ? "host pid " + std::to_string(*user.host_pid)
                                            : "pid ?";
    if (i > 0) out += "; ";
    out += fmt::format("{} ({}", user.user.empty() ? "?" : printable(user.user), pid);
    if (!user.command.empty())
      out += fmt::format(", {}", printable(std::string_view(user.command).substr(0, 40)));
    out += ')';
    if (user.memory_bytes) out += " " + show_bytes(*user.memory_bytes);
  }
  if (users.size() > most) out += text(" and {} more", users.size() - most);
  return out;
}

std::string sentence(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::kLost:
      return text("it is lost");
    case Obstacle::kNoAnswer:
      return text("it does not answer");
    case Obstacle::kUnreadable:
      return text("the driver does not report whether it is in use");
    case Obstacle::kProhibited:
      return text("its compute mode is prohibited");
    case Obstacle::kTaken:
      return text("its compute mode is exclusive, and a process uses it");
    case Obstacle::kNoPartition:
      return text("MIG is on, but it has no partition");
    case Obstacle::kPartitionsUnknown:
      return text("MIG is on, but its partitions could not be read");
    case Obstacle::kLeased:
      return text("it is leased to a job");
    case Obstacle::kNone:
      return {};
  }
  return {};
}

std::string call_with(const model::Request& request, std::string_view options) {
  return fmt::format("berth {} {}{}", request.verb, options, request.verb == "run" ? " …" : "");
}

std::vector<Candidate> choose(const std::vector<Candidate>& pool, int count,
                              std::optional<std::uint64_t> need_bytes) {
  if (count < 1 || pool.size() < static_cast<std::size_t>(count)) return {};
  if (count == 1) {
    std::vector<decltype(cost_of_one(pool.front(), pool, need_bytes))> costs;
    costs.reserve(pool.size());
    for (const Candidate& c : pool) costs.push_back(cost_of_one(c, pool, need_bytes));
    return {pool[static_cast<std::size_t>(std::min_element(costs.begin(), costs.end()) -
                                          costs.begin())]};
  }
  constexpr std::size_t kMostSeeds = 256;  // more than the number of devices in any machine
  const Links links(pool);
  Set best;
  for (std::size_t seed = 0; seed < std::min(pool.size(), kMostSeeds); ++seed) {
    if (pool[seed].partition != nullptr) continue;
    Set set = with_companions(seed, pool, links, static_cast<std::size_t>(count), need_bytes);
    if (set.size() < static_cast<std::size_t>(count)) continue;
    if (best.empty() ||
        cost_of_set(set, pool, links, need_bytes) < cost_of_set(best, pool, links, need_bytes))
      best = std::move(set);
  }
  std::vector<Candidate> chosen;
  for (const std::size_t at : best) chosen.push_back(pool[at]);
  std::sort(chosen.begin(), chosen.end(),
            [](const Candidate& a, const Candidate& b) { return identity(a) < identity(b); });
  return chosen;
}

}  // namespace berth::policy
