#include "policy/mig.hpp"

#include <algorithm>
#include <tuple>

#include "base/text.hpp"
#include "policy/candidates.hpp"

namespace berth::policy {
namespace {

using model::MigCard;
using model::MigInstance;
using model::MigPlacement;
using model::MigProfile;

bool overlap(const MigPlacement& a, const MigPlacement& b) {
  return a.start < b.start + b.size && b.start < a.start + a.size;
}

bool is_plain(const MigProfile& profile) {
  return profile.name.find_first_of("+-") == std::string::npos;
}

bool is_free(const MigCard& card, const MigPlacement& place) {
  return std::none_of(card.instances.begin(), card.instances.end(),
                      [&](const MigInstance& one) { return overlap(one.place, place); });
}

/// Measures how much room remains if a partition is made at this place: the sum of the sizes of all
/// places that stay free.
std::uint64_t room_left(const MigCard& card, const MigPlacement& taken) {
  std::uint64_t sum = 0;
  for (const MigProfile& profile : card.profiles)
    for (const MigPlacement& place : profile.places)
      if (is_plain(profile) && !overlap(place, taken) && is_free(card, place)) sum += place.size;
  return sum;
}

std::optional<MigPlacement> best_place(const MigCard& card, const MigProfile& profile) {
  std::optional<MigPlacement> best;
  std::uint64_t most = 0;
  for (const MigPlacement& place : profile.places) {
    if (!is_free(card, place)) continue;
    const std::uint64_t left = room_left(card, place);
    // If two places are equally good, take the later one, because a partition of 4 slices can only
    // start at the first place.
    if (best && left < most) continue;
    best = place;
    most = left;
  }
  return best;
}

std::uint64_t largest(const MigCard& card) {
  std::uint64_t most = 0;
  for (const MigProfile& profile : card.profiles)
    if (is_plain(profile) && best_place(card, profile)) most = std::max(most, profile.memory_bytes);
  return most;
}

bool is_made(const std::string& unit, const model::Ledger& ledger) {
  return std::find(ledger.made.begin(), ledger.made.end(), unit) != ledger.made.end();
}

bool is_unit_of(const std::string& unit, const model::Device& device) {
  return unit == device.uuid ||
         std::any_of(device.partitions.begin(), device.partitions.end(),
                     [&](const model::Partition& part) { return part.uuid == unit; });
}

/// Whether the process belongs to a job whose partition was made by Berth.
bool is_of_made(const model::DeviceProcess& process, const model::Ledger& ledger) {
  return std::any_of(ledger.made.begin(), ledger.made.end(), [&](const std::string& unit) {
    return holding_of(process, unit, ledger) != nullptr;
  });
}

/// Why the card's partitions may not be changed now; "" if nothing uses the card.
std::string why_busy(const model::Device& device, const model::Snapshot& snapshot,
                     const model::Ledger& ledger, bool beside_jobs) {
  if (device.processes_unknown) return text("its processes are not known");
  for (const model::DeviceProcess& process : snapshot.processes) {
    if (process.device != device.index || (beside_jobs && is_of_made(process, ledger))) continue;
    return process.pid ? text("process {} uses it", *process.pid) : text("a process uses it");
  }
  for (const model::Holding& one : ledger.holdings) {
    if (!is_unit_of(one.unit, device) || (beside_jobs && is_made(one.unit, ledger))) continue;
    // A holding with job 0 means that no job may get the card. place() checks that, so skip it
    // here.
    if (one.job != 0) return text("job {} uses it", one.job_words());
  }
  return "";
}

}  // namespace

std::optional<MigChoice> choose_partition(const MigCard& card, std::uint64_t need_bytes) {
  std::vector<const MigProfile*> enough;
  for (const MigProfile& profile : card.profiles)
    if (is_plain(profile) && profile.memory_bytes >= need_bytes) enough.push_back(&profile);
  std::sort(enough.begin(), enough.end(), [](const MigProfile* a, const MigProfile* b) {
    return std::tie(a->memory_bytes, a->slices, a->id) <
           std::tie(b->memory_bytes, b->slices, b->id);
  });
  for (const MigProfile* profile : enough)
    if (const auto place = best_place(card, *profile)) return MigChoice{profile, *place};
  return std::nullopt;
}

model::MigRoom room_of(const MigCard& card, const model::Snapshot& snapshot,
                       const model::Ledger& ledger, bool beside_jobs) {
  model::MigRoom room;
  room.device = card.uuid;
  MigCard empty = card;
  empty.instances.clear();
  room.most_bytes = largest(empty);
  const auto device = std::find_if(snapshot.devices.begin(), snapshot.devices.end(),
                                   [&](const model::Device& one) { return one.uuid == card.uuid; });
  if (device == snapshot.devices.end()) return room;
  room.busy = why_busy(*device, snapshot, ledger, beside_jobs);
  if (room.busy.empty()) room.now_bytes = largest(card);
  return room;
}

MigRemoval next_removal(const model::MadePartition& made, const MigCard& card) {
  using Step = MigRemoval::Step;
  const auto is_it = [&](const MigInstance& one) {
    return one.profile == made.profile && one.place == made.place &&
           (!made.instance || one.id == *made.instance);
  };
  const auto found = std::find_if(card.instances.begin(), card.instances.end(), is_it);
  if (found == card.instances.end()) return {};
  // The instance has a compute instance, but Berth had not begun to make one. So another program
  // made this partition, and it stays.
  if (made.step == model::MigStep::kMakeInstance && !found->computes.empty()) return {};
  if (found->computes.empty()) return {Step::kInstance, found->id, 0};
  const bool may_be_ours = made.step == model::MigStep::kMakeCompute ||
                           made.step == model::MigStep::kReady ||
                           made.step == model::MigStep::kRemoveCompute;
  const std::uint32_t first = found->computes.front();
  const bool is_ours =
      may_be_ours && found->computes.size() == 1 && (!made.compute || *made.compute == first);
  return {is_ours ? Step::kCompute : Step::kLeave, found->id, first};
}

}  // namespace berth::policy
