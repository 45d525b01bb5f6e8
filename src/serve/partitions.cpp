#include "serve/partitions.hpp"

#include <algorithm>
#include <chrono>

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "inventory/mig_driver.hpp"
#include "policy/mig.hpp"

namespace berth::serve {
namespace {

using Json = nlohmann::json;
using model::MadePartition;
using model::MigCard;
using model::MigStep;

constexpr std::chrono::seconds kClosedFor(30);
/// kQuickTries: how many times the removal of a partition is repeated quickly, because processes of
/// the job may still be dying. After that, it is repeated rarely. kTriesOfUnseen: after this many
/// tries, the record of a partition that never appeared is deleted.
constexpr int kQuickTries = 10, kTriesOfUnseen = 3;
constexpr std::chrono::seconds kSoon(1), kLater(30);

Json json_of(const MadePartition& one) {
  Json out{{"job", one.job},
           {"card", one.card},
           {"profile", one.profile},
           {"name", one.name},
           {"memory_bytes", one.memory_bytes},
           {"start", one.place.start},
           {"size", one.place.size},
           {"step", static_cast<int>(one.step)},
           {"uuid", one.uuid}};
  if (one.instance) out["instance"] = *one.instance;
  if (one.compute) out["compute"] = *one.compute;
  return out;
}

MadePartition made_in(const Json& json) {
  MadePartition one;
  one.job = json.at("job").get<std::uint64_t>();
  one.card = json.at("card").get<std::string>();
  one.profile = json.at("profile").get<std::uint32_t>();
  one.name = json.at("name").get<std::string>();
  one.memory_bytes = json.at("memory_bytes").get<std::uint64_t>();
  one.place = {json.at("start").get<std::uint32_t>(), json.at("size").get<std::uint32_t>()};
  const int step = json.at("step").get<int>();
  if (step < 0 || step > static_cast<int>(MigStep::kRemoveInstance))
    throw Json::other_error::create(501, "step", nullptr);
  one.step = static_cast<MigStep>(step);
  one.uuid = json.at("uuid").get<std::string>();
  if (json.contains("instance")) one.instance = json.at("instance").get<std::uint32_t>();
  if (json.contains("compute")) one.compute = json.at("compute").get<std::uint32_t>();
  return one;
}

bool is_released(const MadePartition& one) {
  return one.step >= MigStep::kRemoveCompute;
}

Error other_parts(const MadePartition& made, std::uint32_t instance) {
  return {ErrorCode::kUnavailable, "E1070",
          text("the MIG partition {} that Berth made on {} is not removed: something else made a "
               "compute instance in it",
               made.name, made.card),
          fmt::format(
              "sudo nvidia-smi mig -i {0} -gi {1} -dci\nsudo nvidia-smi mig -i {0} -gi {1} -dgi",
              made.card, instance)};
}

}  // namespace

void Partitions::resume(std::string_view record) {
  all_.clear();
  next_try_ = policy::Instant{0};
  tries_ = 0;
  const Json list = Json::parse(record, nullptr, false);
  if (!list.is_array()) return;
  for (const Json& one : list) try {
      all_.push_back(made_in(one));
    } catch (const Json::exception&) {
      continue;  // a newer Berth wrote this record
    }
}

std::string Partitions::record() const {
  Json list = Json::array();
  for (const MadePartition& one : all_) list.push_back(json_of(one));
  return list.dump();
}

void Partitions::adopt(const model::Job& job, const model::Snapshot& snapshot) {
  if (job.grants.size() != 1 || !job.grants.front().made) return;
  const std::string& uuid = job.grants.front().unit;
  for (const MadePartition& one : all_)
    if (one.uuid == uuid) return;
  for (const model::Device& device : snapshot.devices)
    for (const model::Partition& part : device.partitions) {
      if (part.uuid != uuid) continue;
      MadePartition one;
      one.job = job.id;
      one.card = device.uuid;
      one.name = part.name;
      one.memory_bytes = part.memory_total_bytes.value_or(0);
      one.step = MigStep::kReady;
      one.instance = part.gpu_instance;
      one.compute = part.compute_instance;
      one.uuid = uuid;
      for (const MigCard& card : cards_)
        for (const model::MigInstance& instance : card.instances)
          if (card.uuid == one.card && instance.id == one.instance) {
            one.profile = instance.profile;
            one.place = instance.place;
          }
      all_.push_back(std::move(one));
    }
}

std::vector<model::MigRoom> Partitions::rooms(const model::Snapshot& snapshot,
                                              const model::Ledger& ledger,
                                              policy::Instant now) const {
  std::vector<model::MigRoom> out;
  if (!settings_.manages) return out;
  for (const MigCard& card : cards_) {
    out.push_back(policy::room_of(card, snapshot, ledger, settings_.beside_jobs));
    const auto closed = closed_until_.find(card.uuid);
    if (closed == closed_until_.end() || closed->second <= now) continue;
    out.back().now_bytes = 0;
    out.back().busy = text("the driver refused to make the last partition");
  }
  return out;
}

std::vector<std::string> Partitions::made(const model::Snapshot& snapshot) const {
  std::vector<std::string> out(removed_.begin(), removed_.end());
  for (const MadePartition& one : all_) {
    if (!one.uuid.empty()) out.push_back(one.uuid);
    if (!one.uuid.empty() || !one.instance) continue;
    for (const model::Device& device : snapshot.devices)
      for (const model::Partition& part : device.partitions)
        if (device.uuid == one.card && part.gpu_instance == one.instance) out.push_back(part.uuid);
  }
  return out;
}

void Partitions::correct(model::Snapshot& snapshot) {
  std::erase_if(removed_, [&](const std::string& uuid) {
    return std::none_of(
        snapshot.devices.begin(), snapshot.devices.end(), [&](const model::Device& device) {
          return std::any_of(device.partitions.begin(), device.partitions.end(),
                             [&](const model::Partition& part) { return part.uuid == uuid; });
        });
  });
  // A broker that was killed may not have recorded the uuid. Take it from the snapshot.
  for (MadePartition& one : all_)
    for (const model::Device& device : snapshot.devices)
      for (const model::Partition& part : device.partitions)
        if (one.uuid.empty() && one.instance && device.uuid == one.card &&
            part.gpu_instance == one.instance)
          one.uuid = part.uuid;
  for (const MadePartition& one : all_) {
    if (one.step != MigStep::kReady) continue;
    for (model::Device& device : snapshot.devices) {
      if (device.uuid != one.card) continue;
      const bool is_there =
          std::any_of(device.partitions.begin(), device.partitions.end(),
                      [&](const model::Partition& part) { return part.uuid == one.uuid; });
      if (is_there) continue;
      model::Partition part;
      part.name = one.name;
      part.uuid = one.uuid;
      part.gpu_instance = one.instance;
      part.compute_instance = one.compute;
      part.memory_total_bytes = one.memory_bytes;
      device.partitions.push_back(std::move(part));
    }
  }
}

Result<std::optional<MigCard>> Partitions::card_now(const std::string& uuid) {
  auto cards = inventory::read_mig_cards(library_);
  if (!cards) return std::move(cards).error();
  cards_ = *std::move(cards);
  for (const MigCard& card : cards_)
    if (card.uuid == uuid) return std::optional(card);
  return std::optional<MigCard>();
}

Result<model::Partition> Partitions::make(model::JobId job, const std::string& uuid,
                                          std::uint64_t need_bytes, const Keep& keep) {
  const auto card = card_now(uuid);
  if (!card) return card.error();
  if (!*card)
    return Error{ErrorCode::kUnavailable, "E1064",
                 text("no MIG partition can be made: {}", text("MIG is off on {}", uuid)),
                 fmt::format("sudo nvidia-smi -i {} -mig 1", uuid)};
  const auto choice = policy::choose_partition(**card, need_bytes);
  if (!choice)
    return Error{ErrorCode::kUnavailable, "E1064",
                 text("no MIG partition can be made: {}",
                      text("no MIG profile of {} with at least {} has a free placement", uuid,
                           show_bytes(need_bytes))),
                 "nvidia-smi mig -lgip\nnvidia-smi mig -lgi"};
  MadePartition made;
  made.job = job;
  made.card = uuid;
  made.profile = choice->profile->id;
  made.name = choice->profile->name;
  made.memory_bytes = choice->profile->memory_bytes;
  made.place = choice->place;
  all_.push_back(made);
  auto done = carry_out(all_.back(), keep);
  if (!done) release(job);
  if (auto again = inventory::read_mig_cards(library_)) cards_ = *std::move(again);
  return done;
}

Result<model::Partition> Partitions::carry_out(MadePartition& made, const Keep& keep) {
  if (auto kept = keep(record()); !kept) return std::move(kept).error();
  const auto instance = inventory::make_gpu_instance(library_, made.card, made.profile, made.place);
  if (!instance) return instance.error();
  made.instance = *instance;
  made.step = MigStep::kMakeCompute;
  if (auto kept = keep(record()); !kept) return std::move(kept).error();
  auto part = inventory::make_compute_instance(library_, made.card, *instance);
  if (!part) return std::move(part).error();
  // The record is not written here, because the caller writes it together with the job.
  made.compute = part->compute_instance;
  made.uuid = part->uuid;
  made.name = part->name;
  made.memory_bytes = part->memory_total_bytes.value_or(made.memory_bytes);
  made.step = MigStep::kReady;
  return part;
}

void Partitions::close(const std::string& card, policy::Instant now) {
  closed_until_[card] = now + kClosedFor;
}

void Partitions::release(model::JobId job) {
  for (MadePartition& one : all_) {
    if (one.job != job || is_released(one)) continue;
    // If a step was begun but not completed, keep its name: next_removal() needs it to know what
    // Berth may have made. A partition whose job is 0 is released.
    if (one.step == MigStep::kReady) one.step = MigStep::kRemoveCompute;
    one.job = 0;
    next_try_ = policy::Instant{0};
    tries_ = 0;
  }
}

void Partitions::release_all_but(const std::vector<model::JobId>& running) {
  std::vector<model::JobId> over;
  for (const MadePartition& one : all_)
    if (std::find(running.begin(), running.end(), one.job) == running.end() ||
        one.step != MigStep::kReady)
      over.push_back(one.job);
  for (const model::JobId job : over) release(job);
}

bool Partitions::has_work(policy::Instant now) const {
  return now >= next_try_ && std::any_of(all_.begin(), all_.end(),
                                         [](const MadePartition& one) { return one.job == 0; });
}

void Partitions::forget(std::size_t at) {
  if (!all_[at].uuid.empty()) removed_.insert(all_[at].uuid);
  all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(at));
}

/// Removes one partition, step by step. Fails with the errors of `keep` and of the driver.
Status Partitions::remove(MadePartition& made, const Keep& keep, bool& is_gone) {
  using Step = policy::MigRemoval::Step;
  for (;;) {
    const auto card = card_now(made.card);
    if (!card) return card.error();
    const auto next = *card ? policy::next_removal(made, **card) : policy::MigRemoval{};
    switch (next.step) {
      case Step::kForget:
        // The driver may still be making the partition, if its call was cut off by a kill or a time
        // limit. So try again a few times before the record is deleted.
        is_gone = made.step != MigStep::kMakeInstance || tries_ >= kTriesOfUnseen;
        return Done{};
      case Step::kLeave:
        is_gone = true;
        return other_parts(made, next.instance);
      case Step::kCompute:
        made.step = MigStep::kRemoveCompute;
        made.instance = next.instance;
        made.compute = next.compute;
        if (auto kept = keep(record()); !kept) return kept;
        if (auto done = inventory::remove_compute_instance(library_, made.card, next.instance,
                                                           next.compute);
            !done)
          return done;
        break;
      case Step::kInstance:
        made.step = MigStep::kRemoveInstance;
        made.instance = next.instance;
        if (auto kept = keep(record()); !kept) return kept;
        if (auto done = inventory::remove_gpu_instance(library_, made.card, next.instance); !done)
          return done;
        break;
    }
  }
}

Status Partitions::remove_released(policy::Instant now, const Keep& keep,
                                   std::vector<Error>& problems) {
  if (!has_work(now)) return Done{};
  bool is_left = false;
  for (std::size_t i = 0; i < all_.size();) {
    if (all_[i].job != 0) {
      ++i;
      continue;
    }
    bool is_gone = false;
    Status done = remove(all_[i], keep, is_gone);
    if (!done && done.error().id != "E1064" && done.error().id != "E1065" &&
        done.error().id != "E1070")
      return done;
    if (!done && (is_gone || tries_ == kQuickTries)) problems.push_back(done.error());
    if (is_gone)
      forget(i);
    else
      ++i;
    is_left = is_left || !is_gone;
  }
  tries_ = is_left ? tries_ + 1 : 0;
  next_try_ = now + (tries_ <= kQuickTries ? kSoon : kLater);
  return keep(record());
}

}  // namespace berth::serve
