#include "job/next_try.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "policy/machines_for_tests.hpp"

namespace berth::job {
namespace {

using model::TryChange;
using model::TryClass;
using policy::machines::gpu;
using policy::machines::kGiB;
using policy::machines::machine;

model::Snapshot cards(std::vector<std::uint64_t> gib) {
  std::vector<model::Device> all;
  for (const std::uint64_t one : gib) all.push_back(gpu(model::Vendor::kNvidia, "A card", one));
  return machine(std::move(all));
}

void take_memory(model::Snapshot& snapshot, std::size_t device, std::uint64_t gib) {
  snapshot.devices[device].readings.memory_used_bytes = gib * kGiB;
  model::DeviceProcess process;
  process.device = static_cast<int>(device);
  process.kind.compute = true;
  process.memory_bytes = gib * kGiB;
  snapshot.processes.push_back(process);
}

FailedTry failed_on(std::vector<int> devices, TryClass kind) {
  FailedTry failed;
  failed.kind = kind;
  failed.may_move = true;
  failed.devices = std::move(devices);
  return failed;
}

TEST_CASE("after a device fault the job avoids the device, if the machine has enough others") {
  const auto snapshot = cards({24, 24});
  const auto next = next_try(failed_on({1}, TryClass::kDeviceFault), {}, snapshot, {});
  CHECK(next.change == TryChange::kOtherDevice);
  CHECK(next.without == std::vector<std::string>{snapshot.devices[1].uuid});

  model::Request both;
  both.gpus = 2;
  CHECK(next_try(failed_on({1}, TryClass::kDeviceFault), both, snapshot, {}).change ==
        TryChange::kNothing);
  CHECK(next_try(failed_on({0}, TryClass::kDeviceFault), {}, cards({24}), {}).change ==
        TryChange::kNothing);
  auto fixed = failed_on({1}, TryClass::kDeviceFault);
  fixed.may_move = false;
  CHECK(next_try(fixed, {}, snapshot, {}).change == TryChange::kNothing);
}

TEST_CASE("a device that another job has is worth waiting for after a fault") {
  const auto snapshot = cards({24, 24});
  model::Ledger ledger;
  ledger.holdings.push_back({});
  ledger.holdings.back().unit = snapshot.devices[0].uuid;
  CHECK(next_try(failed_on({1}, TryClass::kDeviceFault), {}, snapshot, ledger).change ==
        TryChange::kOtherDevice);
}

TEST_CASE("after memory ran out the job takes a free device with more room") {
  const auto snapshot = cards({24, 24, 80});
  const auto next = next_try(failed_on({0}, TryClass::kOutOfMemory), {}, snapshot, {});
  CHECK(next.change == TryChange::kOtherDevice);
  const auto& without = next.without;
  CHECK(std::find(without.begin(), without.end(), snapshot.devices[0].uuid) != without.end());
  CHECK(std::find(without.begin(), without.end(), snapshot.devices[1].uuid) != without.end());
  CHECK(std::find(without.begin(), without.end(), snapshot.devices[2].uuid) == without.end());

  // Another program uses memory of the large GPU.
  auto taken = snapshot;
  take_memory(taken, 2, 10);
  CHECK(next_try(failed_on({0}, TryClass::kOutOfMemory), {}, taken, {}).change ==
        TryChange::kSmallerBatch);
}

TEST_CASE("memory that others hold is waited for, if no free device has more") {
  auto snapshot = cards({24});
  take_memory(snapshot, 0, 20);
  CHECK(next_try(failed_on({0}, TryClass::kOutOfMemory), {}, snapshot, {}).change ==
        TryChange::kWaitedForMemory);
  CHECK(memory_of_others({0}, snapshot) == 20 * kGiB);
  // Memory of a few hundred MiB, as a desktop uses, does not count.
  snapshot.devices[0].readings.memory_used_bytes = kGiB / 4;
  CHECK(memory_of_others({0}, snapshot) == 0);
  CHECK(next_try(failed_on({0}, TryClass::kOutOfMemory), {}, snapshot, {}).change ==
        TryChange::kSmallerBatch);
  // If another card is free, the job moves to that card instead.
  auto two = cards({24, 24});
  take_memory(two, 0, 20);
  CHECK(next_try(failed_on({0}, TryClass::kOutOfMemory), {}, two, {}).change ==
        TryChange::kOtherDevice);
}

TEST_CASE("host memory and the job's own limit need a smaller batch, whatever else is free") {
  const auto snapshot = cards({24, 80});
  auto host = failed_on({0}, TryClass::kOutOfMemory);
  host.lacked_host_memory = true;
  CHECK(next_try(host, {}, snapshot, {}).change == TryChange::kSmallerBatch);
  auto own = failed_on({0}, TryClass::kOutOfMemory);
  own.met_own_limit = true;
  CHECK(next_try(own, {}, snapshot, {}).change == TryChange::kSmallerBatch);
  CHECK(next_try(failed_on({0}, TryClass::kKilled), {}, snapshot, {}).change ==
        TryChange::kNothing);
}

model::Try ended(TryClass kind, std::string traceback = "") {
  model::Try one;
  one.kind = kind;
  one.exit_code = kind == TryClass::kOk ? 0 : 1;
  one.evidence = "the last line";
  model::RankEnd rank;
  rank.part = model::RankPart::kFailedFirst;
  rank.traceback = std::move(traceback);
  one.ranks.push_back(rank);
  return one;
}

TEST_CASE("a device that was lost meanwhile decides the class, not the text") {
  const auto before = cards({24, 24});
  auto after = before;
  after.devices[1].health = model::Health::kLost;
  auto one = ended(TryClass::kUserError, "Traceback");
  CHECK(correct_class(one, before, after, {0, 1}, 0) == std::vector<int>{1});
  CHECK(one.kind == TryClass::kDeviceFault);
  CHECK(one.evidence == "GPU 1: lost");
  auto other = ended(TryClass::kUserError);
  static_cast<void>(correct_class(other, before, after, {0}, 0));
  CHECK(other.kind == TryClass::kUserError);
  // The device was lost before the job began, so the job did not use it.
  auto old = ended(TryClass::kUserError);
  static_cast<void>(correct_class(old, after, after, {1}, 0));
  CHECK(old.kind == TryClass::kUserError);

  auto faulty = before;
  auto sound = before;
  sound.devices[0].readings.ecc_uncorrected = 1;
  faulty.devices[0].readings.ecc_uncorrected = 3;
  auto ecc = ended(TryClass::kUserError);
  static_cast<void>(correct_class(ecc, sound, faulty, {0}, 0));
  CHECK(ecc.evidence == "GPU 0: 2 uncorrectable ECC errors");
  auto fine = ended(TryClass::kOk);
  static_cast<void>(correct_class(fine, sound, faulty, {0}, 5));
  CHECK(fine.kind == TryClass::kOk);
}

TEST_CASE("memory that the guard refused explains an end without an exception") {
  const auto snapshot = cards({24});
  auto silent = ended(TryClass::kUserError);
  static_cast<void>(correct_class(silent, snapshot, snapshot, {0}, 2));
  CHECK(silent.kind == TryClass::kOutOfMemory);
  auto python = ended(TryClass::kUserError, "Traceback\nValueError: no");
  static_cast<void>(correct_class(python, snapshot, snapshot, {0}, 2));
  CHECK(python.kind == TryClass::kUserError);
  auto unlimited = ended(TryClass::kUserError);
  static_cast<void>(correct_class(unlimited, snapshot, snapshot, {0}, 0));
  CHECK(unlimited.kind == TryClass::kUserError);
}

TEST_CASE("the evidence says which memory ran out") {
  auto one = ended(TryClass::kOutOfMemory);
  for (const auto& [evidence, is_host] :
       {std::pair{"torch.OutOfMemoryError: CUDA out of memory.", false},
        {"SIGKILL, oom_kill 1 in the control group", true},
        {"MemoryError", true},
        {"terminate called after throwing an instance of 'std::bad_alloc'", true}}) {
    one.evidence = evidence;
    CHECK(failed_try(one, {0}, 0).lacked_host_memory == is_host);
    CHECK(failed_try(one, {}, 0).lacked_host_memory);
  }
  CHECK(failed_try(one, {0, 1}, 0).devices == std::vector<int>{0, 1});
  one.ranks.front().devices = {1};
  CHECK(failed_try(one, {0, 1}, 3).devices == std::vector<int>{1});
  CHECK(failed_try(one, {0, 1}, 3).met_own_limit);
}

TEST_CASE("the scale of the batch is halved, and nonsense in the variable counts as 1") {
  CHECK(show_scale(smaller_scale(1)) == "0.5");
  CHECK(show_scale(smaller_scale(smaller_scale(smaller_scale(1)))) == "0.125");
  CHECK(parse_scale("0.25") == 0.25);
  for (const char* wrong : {"", "0", "-1", "2", "half", "0.5x", "nan", "inf"})
    CHECK(parse_scale(wrong) == 1);
}

}  // namespace
}  // namespace berth::job
