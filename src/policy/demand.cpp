#include "policy/demand.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "model/device_use.hpp"
#include "policy/candidates.hpp"
#include "policy/placement.hpp"

namespace berth::policy {
namespace {

std::string id_of(const Candidate& candidate) {
  return unit_id(*candidate.device, candidate.partition);
}

int position(const std::vector<std::string>& units, const std::string& id) {
  const auto found = std::find(units.begin(), units.end(), id);
  return found == units.end() ? -1 : static_cast<int>(found - units.begin());
}

/// Memory that foreign processes use: all used memory, minus what jobs use of the memory promised
/// to them.
std::uint64_t taken_by_strangers(const Candidate& candidate, const model::Snapshot& snapshot,
                                 const model::Ledger& ledger) {
  if (!candidate.capacity_bytes || !candidate.free_bytes) return 0;
  const std::uint64_t used =
      *candidate.capacity_bytes - std::min(*candidate.capacity_bytes, *candidate.free_bytes);
  std::uint64_t by_jobs = 0;
  for (const model::DeviceProcess& process : snapshot.processes)
    if (process.device == candidate.device->index &&
        holding_of(process, id_of(candidate), ledger) != nullptr)
      by_jobs += process.memory_bytes.value_or(0);
  return used - std::min(used, by_jobs);
}

/// Copies the ledger without leases: only the partitions that Berth made, and the room for new
/// ones. `empty`: as if no device were in use.
model::Ledger only_mig(const model::Ledger& ledger, bool empty) {
  model::Ledger out;
  out.rooms = ledger.rooms;
  out.made = ledger.made;
  for (model::MigRoom& room : out.rooms)
    if (empty) room.now_bytes = room.most_bytes;
  return out;
}

/// The same machine with all devices unused. A request that fails even there can never succeed.
model::Snapshot emptied(model::Snapshot snapshot) {
  snapshot.processes.clear();
  snapshot.unattributed.clear();
  for (model::Device& device : snapshot.devices) {
    if (device.readings.memory_used_bytes) device.readings.memory_used_bytes = 0;
    for (model::Partition& part : device.partitions)
      if (part.memory_used_bytes) part.memory_used_bytes = 0;
    device.processes_unknown.reset();
    // Waiting may help, because a device that does not answer now may answer later.
    if (device.health == model::Health::kNoAnswer) device.health = model::Health::kOk;
  }
  return snapshot;
}

bool may_be_had(const Candidate& candidate, const model::Request& request, const Visible& visible,
                const std::vector<Unit>& named) {
  const Unit unit = candidate.unit();
  if (!visible.allows(unit.device, unit.partition_uuid)) return false;
  if (request.devices.empty()) return true;
  return std::any_of(named.begin(), named.end(), [&](const Unit& one) {
    return one.device == unit.device &&
           (one.partition_uuid.empty() || one.partition_uuid == unit.partition_uuid);
  });
}

}  // namespace

std::vector<std::string> units_of(const model::Snapshot& snapshot, std::vector<std::string> known,
                                  const model::Ledger& ledger) {
  const model::Ledger mig = only_mig(ledger, false);
  for (const Candidate& candidate : candidates_of(snapshot, mig))
    if (std::string id = id_of(candidate); !id.empty() && position(known, id) < 0)
      known.push_back(std::move(id));
  return known;
}

Pool pool_of(const model::Snapshot& snapshot, const model::Ledger& ledger,
             const std::vector<std::string>& units, const std::vector<std::string>& drained,
             const std::vector<std::string>& lent) {
  Pool pool;
  pool.cpus = std::max(1, snapshot.host.cpu.cores_usable);
  pool.devices.resize(units.size());
  for (Slot& slot : pool.devices) slot.usable = false;
  // Count only memory in use here. The queue itself subtracts the memory that is promised to jobs.
  const auto with_jobs = candidates_of(snapshot, ledger);
  const model::Ledger mig = only_mig(ledger, false);
  const auto used = candidates_of(snapshot, mig);
  for (std::size_t i = 0; i < used.size(); ++i) {
    const int at = position(units, id_of(used[i]));
    if (at < 0) continue;
    Slot& slot = pool.devices[static_cast<std::size_t>(at)];
    const Obstacle obstacle = with_jobs[i].obstacle;
    const std::string& unit = units[static_cast<std::size_t>(at)];
    const bool is_room = used[i].room != nullptr && obstacle == Obstacle::kNoPartition;
    const bool may_be_had =
        (obstacle == Obstacle::kNone || obstacle == Obstacle::kLeased || is_room) &&
        position(drained, unit) < 0;
    slot.lent = may_be_had && position(lent, unit) >= 0;
    slot.usable = may_be_had && !slot.lent;
    slot.in_use = with_jobs[i].strangers;
    slot.memory_bytes = used[i].capacity_bytes.value_or(0);
    // The queue subtracts the memory of jobs, including partitions that were made for them. On a
    // GPU where Berth makes partitions, place() decides whether another partition fits.
    if (used[i].room == nullptr)
      slot.memory_taken_bytes = taken_by_strangers(used[i], snapshot, ledger);
  }
  return pool;
}

Result<Demand> demand_of(const model::Request& request, const model::Snapshot& snapshot,
                         const std::vector<std::string>& units, const model::Ledger& ledger) {
  const model::Snapshot empty = emptied(snapshot);
  const model::Ledger mig = only_mig(ledger, true);
  const auto placement = place(request, empty, mig);
  if (!placement) return placement.error();
  Demand demand;
  demand.devices = static_cast<int>(placement->devices.size());
  demand.cpus = request.cpus.value_or(0);
  demand.memory_bytes = request.memory_bytes.value_or(0);
  demand.share_permille = request.share_permille.value_or(0);
  demand.beside_strangers = !request.devices.empty();
  if (const int most = request.gpus_most.value_or(0); most > demand.devices && demand.devices > 0)
    demand.most_devices = most;
  const bool are_several = std::max(demand.devices, demand.most_devices) > 1;
  if (demand.devices == 0) {
    demand.memory_bytes = 0;
    demand.share_permille = 0;
    demand.beside_strangers = false;
    return demand;
  }
  std::vector<Unit> named;
  if (!request.devices.empty())
    if (auto selected = model::select_devices(snapshot.devices, request.devices))
      named = *std::move(selected);
  const Visible visible = inherited_visibility(request, snapshot);
  auto all = candidates_of(empty, mig);
  leave_out_excluded(all, request);
  const bool with_cards = std::any_of(all.begin(), all.end(), [](const Candidate& one) {
    return !model::processor_graphics(*one.device);
  });
  std::map<model::Vendor, std::vector<int>> by_vendor;
  for (const Candidate& candidate : all) {
    const bool is_part = (candidate.partition != nullptr && are_several) ||
                         (candidate.room != nullptr && candidate.obstacle != Obstacle::kNone);
    const bool is_small =
        with_cards && request.devices.empty() && model::processor_graphics(*candidate.device);
    const int at = position(units, id_of(candidate));
    if (at < 0 || is_part || is_small || !may_be_had(candidate, request, visible, named)) continue;
    // One device may be of any vendor, so put all candidates into one group. Several devices must
    // have the same vendor, so group them by vendor.
    const auto vendor = are_several ? candidate.device->vendor : model::Vendor::kOther;
    by_vendor[vendor].push_back(at);
  }
  for (auto& [vendor, positions] : by_vendor)
    if (positions.size() > demand.allowed.size()) demand.allowed = positions;
  std::sort(demand.allowed.begin(), demand.allowed.end());
  if (demand.allowed.size() == units.size()) demand.allowed.clear();
  return demand;
}

model::Request on_cpu(model::Request request) {
  request.gpus = 0;
  request.gpus_most.reset();
  request.devices.clear();
  request.memory_bytes.reset();
  request.share_permille.reset();
  request.all_gpus.reset();
  return request;
}

}  // namespace berth::policy
