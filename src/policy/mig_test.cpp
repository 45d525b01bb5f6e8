#include "policy/mig.hpp"

#include <doctest/doctest.h>

#include "policy/demand.hpp"
#include "policy/machines_for_tests.hpp"
#include "policy/placement.hpp"

using berth::model::Ledger;
using berth::model::MadePartition;
using berth::model::MigCard;
using berth::model::MigInstance;
using berth::model::MigPlacement;
using berth::model::MigRoom;
using berth::model::MigStep;
using berth::model::Request;
using berth::policy::choose_partition;
using berth::policy::MigRemoval;
using berth::policy::next_removal;
using berth::policy::room_of;

namespace {

namespace machines = berth::policy::machines;
constexpr std::uint64_t kMiB = 1ULL << 20, kGiB = 1ULL << 30;

std::vector<MigPlacement> places(std::vector<std::uint32_t> starts, std::uint32_t size) {
  std::vector<MigPlacement> all;
  for (const std::uint32_t start : starts) all.push_back({start, size});
  return all;
}

/// The profiles of an H100 80GB.
MigCard h100() {
  MigCard card;
  card.uuid = "GPU-aaaa0000-1111-2222";
  card.profiles = {{19, "MIG 1g.10gb", 1, 9984 * kMiB, places({0, 1, 2, 3, 4, 5, 6}, 1)},
                   {20, "MIG 1g.10gb+me", 1, 9984 * kMiB, places({0, 1, 2, 3, 4, 5, 6}, 1)},
                   {15, "MIG 1g.20gb", 1, 20096 * kMiB, places({0, 2, 4, 6}, 2)},
                   {14, "MIG 2g.20gb", 2, 20096 * kMiB, places({0, 2, 4}, 2)},
                   {9, "MIG 3g.40gb", 3, 40448 * kMiB, places({0, 4}, 4)},
                   {5, "MIG 4g.40gb", 4, 40448 * kMiB, places({0}, 4)},
                   {0, "MIG 7g.80gb", 7, 81152 * kMiB, places({0}, 8)}};
  return card;
}

berth::model::Snapshot with_mig() {
  auto snapshot = machines::machine({machines::gpu(machines::Vendor::kNvidia, "H100", 80)});
  snapshot.devices[0].mig_enabled = true;
  return snapshot;
}

Request wants(std::uint64_t bytes) {
  Request request;
  request.memory_bytes = bytes;
  request.mig_only = true;
  return request;
}

}  // namespace

TEST_CASE("a job gets the smallest profile that is large enough") {
  const MigCard card = h100();
  CHECK(choose_partition(card, 5 * kGiB)->profile->id == 19);
  CHECK(choose_partition(card, 10 * kGiB)->profile->id == 15);
  CHECK(choose_partition(card, 30 * kGiB)->profile->id == 9);
  CHECK(choose_partition(card, 60 * kGiB)->profile->id == 0);
  CHECK_FALSE(choose_partition(card, 80 * kGiB));
}

TEST_CASE("a partition goes where it leaves the most places for others") {
  MigCard card = h100();
  CHECK(choose_partition(card, kGiB)->place == MigPlacement{6, 1});
  card.instances = {{7, 19, {6, 1}, {0}}};
  // The new partition goes into the half that is already in use, so that a large partition can
  // still get the other half.
  CHECK(choose_partition(card, kGiB)->place.start >= 4);
  card.instances = {{1, 9, {4, 4}, {0}}, {7, 19, {0, 1}, {0}}};
  CHECK(choose_partition(card, 10 * kGiB)->place == MigPlacement{2, 2});
  CHECK_FALSE(choose_partition(card, 30 * kGiB));
  card.instances = {{0, 0, {0, 8}, {0}}};
  CHECK_FALSE(choose_partition(card, kGiB));
}

TEST_CASE("seven jobs of the smallest size fit on one card") {
  MigCard card = h100();
  for (std::uint32_t i = 0; i < 7; ++i) {
    const auto choice = choose_partition(card, kGiB);
    REQUIRE(choice);
    card.instances.push_back({7 + i, choice->profile->id, choice->place, {0}});
  }
  CHECK_FALSE(choose_partition(card, kGiB));
}

TEST_CASE("only a drained card has room, unless its other jobs are on partitions of Berth") {
  auto snapshot = with_mig();
  Ledger ledger;
  CHECK(room_of(h100(), snapshot, ledger, false).now_bytes == 81152 * kMiB);
  snapshot.processes.push_back({});
  snapshot.processes[0].device = 0;
  snapshot.processes[0].pid = 812;
  const MigRoom used = room_of(h100(), snapshot, ledger, true);
  CHECK(used.now_bytes == 0);
  CHECK(used.most_bytes == 81152 * kMiB);
  CHECK(used.busy.find("812") != std::string::npos);

  snapshot.devices[0].partitions.push_back({});
  snapshot.devices[0].partitions[0].uuid = "MIG-aaaa1111";
  ledger.holdings = {{7, "lin", "MIG-aaaa1111", kGiB}};
  ledger.processes = {{812, 7}};
  ledger.made = {"MIG-aaaa1111"};
  CHECK(room_of(h100(), snapshot, ledger, false).now_bytes == 0);
  CHECK(room_of(h100(), snapshot, ledger, true).now_bytes == 81152 * kMiB);
  // Without an entry in `made`, the partition counts as one that the administrator made. So its
  // process keeps the card in use.
  ledger.made.clear();
  CHECK(room_of(h100(), snapshot, ledger, true).now_bytes == 0);
  snapshot.processes.clear();
  CHECK(room_of(h100(), snapshot, ledger, true).busy.find("7") != std::string::npos);
  ledger.holdings.clear();
  snapshot.devices[0].processes_unknown = berth::model::Absence::kNoPermission;
  CHECK(room_of(h100(), snapshot, ledger, true).now_bytes == 0);
}

TEST_CASE("a job that asks for a partition is placed where one can be made, and no other job is") {
  const auto snapshot = with_mig();
  Ledger ledger;
  ledger.rooms = {{"GPU-aaaa0000-1111-2222", 79 * kGiB, 79 * kGiB, ""}};
  const auto placed = berth::policy::place(wants(10 * kGiB), snapshot, ledger);
  REQUIRE(placed);
  CHECK(placed->devices == std::vector<int>{0});
  CHECK(placed->partitions == std::vector<std::string>{""});
  Request whole;
  whole.memory_bytes = kGiB;
  CHECK(berth::policy::place(whole, snapshot, ledger).error().id == "E0420");
  const auto units = berth::policy::units_of(snapshot, {}, ledger);
  CHECK(units == std::vector<std::string>{"GPU-aaaa0000-1111-2222"});
  CHECK_FALSE(berth::policy::demand_of(whole, snapshot, units, ledger));
  CHECK(berth::policy::demand_of(wants(kGiB), snapshot, units, ledger));
  CHECK(berth::policy::demand_of(wants(80 * kGiB), snapshot, units, ledger).error().id == "E0420");

  ledger.rooms[0].now_bytes = 0;
  ledger.rooms[0].busy = "job 7 uses it";
  const auto held = berth::policy::place(wants(10 * kGiB), snapshot, ledger);
  CHECK(held.error().id == "E0412");
  CHECK(held.error().message.find("job 7 uses it") != std::string::npos);
  CHECK(berth::policy::demand_of(wants(10 * kGiB), snapshot, units, ledger));

  ledger.rooms[0].now_bytes = 79 * kGiB;
  // `berth drain` makes a holding with job 0.
  ledger.holdings = {{0, "", "GPU-aaaa0000-1111-2222", 0}};
  CHECK_FALSE(berth::policy::place(wants(10 * kGiB), snapshot, ledger));
}

TEST_CASE("a partition that Berth made is given to no other job") {
  auto snapshot = with_mig();
  snapshot.devices[0].partitions.push_back({});
  snapshot.devices[0].partitions[0].uuid = "MIG-aaaa1111";
  snapshot.devices[0].partitions[0].memory_total_bytes = 20 * kGiB;
  snapshot.devices[0].partitions[0].memory_used_bytes = 0;
  Ledger ledger;
  CHECK(berth::policy::place(wants(kGiB), snapshot, ledger));
  ledger.made = {"MIG-aaaa1111"};
  CHECK_FALSE(berth::policy::place(wants(kGiB), snapshot, ledger));
  Request named;
  named.devices = {"MIG-aaaa1111"};
  CHECK(berth::policy::place(named, snapshot, ledger).error().id == "E0419");
  CHECK(berth::policy::place(named, snapshot));
}

TEST_CASE("whatever step was cut off, only what Berth made is removed") {
  using Step = MigRemoval::Step;
  MadePartition made;
  made.card = "GPU-aaaa0000-1111-2222";
  made.profile = 15;
  made.place = {6, 2};
  const auto card_with = [](std::vector<MigInstance> instances) {
    MigCard card = h100();
    card.instances = std::move(instances);
    return card;
  };
  const MigInstance bare{7, 15, {6, 2}, {}}, whole{7, 15, {6, 2}, {0}}, other{8, 15, {0, 2}, {0}};

  made.step = MigStep::kMakeInstance;
  CHECK(next_removal(made, card_with({other})).step == Step::kForget);
  const MigRemoval begun = next_removal(made, card_with({other, bare}));
  CHECK(begun.step == Step::kInstance);
  CHECK(begun.instance == 7);
  CHECK(next_removal(made, card_with({whole})).step == Step::kForget);

  made.step = MigStep::kMakeCompute;
  made.instance = 7;
  CHECK(next_removal(made, card_with({bare})).step == Step::kInstance);
  CHECK(next_removal(made, card_with({whole})).step == Step::kCompute);
  CHECK(next_removal(made, card_with({other})).step == Step::kForget);

  made.step = MigStep::kRemoveCompute;
  made.compute = 0;
  CHECK(next_removal(made, card_with({whole})).step == Step::kCompute);
  CHECK(next_removal(made, card_with({{7, 15, {6, 2}, {0, 1}}})).step == Step::kLeave);
  CHECK(next_removal(made, card_with({{7, 15, {6, 2}, {1}}})).step == Step::kLeave);

  made.step = MigStep::kRemoveInstance;
  CHECK(next_removal(made, card_with({bare})).step == Step::kInstance);
  CHECK(next_removal(made, card_with({whole})).step == Step::kLeave);
  CHECK(next_removal(made, card_with({})).step == Step::kForget);
}
