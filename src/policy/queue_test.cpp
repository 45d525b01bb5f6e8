#include "policy/queue.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace berth::policy;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

constexpr std::uint64_t kGiB = 1ULL << 30;

Pool gpus(int count, std::uint64_t memory_bytes = 24 * kGiB, int cpus = 16) {
  Pool pool;
  pool.cpus = cpus;
  pool.devices.assign(static_cast<std::size_t>(count), Slot{.memory_bytes = memory_bytes});
  return pool;
}

WaitingJob job(JobId id, int user, int devices, milliseconds limit = {}) {
  WaitingJob out{.id = id, .user = user, .demand = {.devices = devices}};
  if (limit.count() > 0) out.time_limit = limit;
  return out;
}

/// Starts all jobs that can start now. Returns their ids in the order of their start.
std::vector<JobId> start_all(Queue& queue, Instant now) {
  std::vector<JobId> out;
  while (const auto start = queue.next(now)) {
    queue.started(start->job, start->devices, now);
    out.push_back(start->job);
  }
  return out;
}

using Ids = std::vector<JobId>;

}  // namespace

TEST_CASE("Jobs of one user start in order of submission, higher priority first") {
  Queue queue(gpus(1));
  queue.add(job(1, 0, 1));
  queue.add(job(2, 0, 1));
  WaitingJob urgent = job(3, 0, 1);
  urgent.priority = 5;
  queue.add(urgent);
  CHECK(start_all(queue, seconds(0)) == Ids{3});
  queue.ended(3, seconds(10));
  CHECK(start_all(queue, seconds(10)) == Ids{1});
}

TEST_CASE("A job that wants two to four devices waits for two, and takes what no other job needs") {
  Queue queue(gpus(4));
  queue.add(job(1, 0, 3));
  CHECK(start_all(queue, seconds(0)) == Ids{1});
  WaitingJob flexible = job(2, 0, 2);
  flexible.demand.most_devices = 4;
  queue.add(flexible);
  CHECK_FALSE(queue.next(seconds(1)));
  queue.ended(1, seconds(2));
  auto start = queue.next(seconds(2));
  REQUIRE(start);
  CHECK(start->devices == std::vector<int>{0, 1, 2, 3});
  queue.started(2, start->devices, seconds(2));
  CHECK(queue.running(2)->demand.devices == 4);
  queue.ended(2, seconds(3));
  // Three devices are free. The user may have three at a time, and already has one.
  queue.add(job(3, 0, 1));
  CHECK(start_all(queue, seconds(3)) == Ids{3});
  queue.set_user(0, {.most_devices = 3});
  flexible.id = 4;
  queue.add(flexible);
  start = queue.next(seconds(4));
  REQUIRE(start);
  CHECK(start->devices == std::vector<int>{1, 2});
}

TEST_CASE("Another user's priority does not put a job before mine") {
  Queue queue(gpus(1));
  queue.add(job(1, 0, 1));
  WaitingJob urgent = job(2, 1, 1);
  urgent.priority = 100;
  queue.add(urgent);
  CHECK(start_all(queue, seconds(0)) == Ids{1});
}

TEST_CASE("A user who floods the queue shares it with later users") {
  Queue queue(gpus(2));
  for (JobId id = 1; id <= 50; ++id) queue.add(job(id, 0, 1));
  CHECK(start_all(queue, seconds(0)) == Ids{1, 2});
  WaitingJob late = job(100, 1, 1);
  late.queued = minutes(1);
  queue.add(late);
  queue.ended(1, minutes(2));
  CHECK(start_all(queue, minutes(2)) == Ids{100});
}

TEST_CASE("While all users wait, weights decide their shares") {
  Queue queue(gpus(4));
  queue.set_user(0, {.weight = 3});
  for (JobId id = 1; id <= 800; ++id) queue.add(job(id, static_cast<int>(id % 2), 1));
  int of_the_heavy = 0;
  Ids running = start_all(queue, seconds(0));
  for (int round = 1; round <= 80; ++round) {
    const Instant now = minutes(10 * round);
    for (const JobId id : running) queue.ended(id, now);
    running = start_all(queue, now);
    for (const JobId id : running) of_the_heavy += id % 2 == 0 ? 1 : 0;
  }
  // The user has three quarters of the weight, and so gets about 240 of 320 jobs.
  CHECK(of_the_heavy >= 230);
  CHECK(of_the_heavy <= 250);
}

TEST_CASE("Use of otherwise idle devices does not count against a user") {
  Queue queue(gpus(1));
  queue.add(job(1, 0, 1));
  REQUIRE(start_all(queue, seconds(0)) == Ids{1});
  // Job 1 ran alone for ten hours, which must not count against its user.
  queue.ended(1, hours(10));
  for (JobId id = 2; id <= 9; ++id) {
    WaitingJob next = job(id, id % 2 == 0 ? 0 : 1, 1);
    next.queued = hours(10);
    queue.add(next);
  }
  Ids order;
  for (int i = 0; i < 8; ++i) {
    const Instant now = hours(10) + minutes(i);
    const Ids started = start_all(queue, now);
    REQUIRE(started.size() == 1);
    order.push_back(started[0]);
    queue.ended(started[0], now + minutes(1));
  }
  // The users' jobs alternate: each pair of starts has one job of each user.
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) CHECK(order[i] % 2 != order[i + 1] % 2);
}

TEST_CASE("A big job is not starved by small ones that keep coming") {
  Queue queue(gpus(4));
  for (JobId id = 1; id <= 4; ++id) queue.add(job(id, 0, 1));
  REQUIRE(start_all(queue, seconds(0)).size() == 4);
  WaitingJob big = job(10, 1, 4);
  big.queued = minutes(1);
  queue.add(big);
  for (JobId id = 1; id <= 4; ++id) {
    WaitingJob small = job(20 + id, 2, 1);
    small.queued = minutes(static_cast<int>(1 + id));
    queue.add(small);
    queue.ended(id, small.queued);
    const Ids started = start_all(queue, small.queued);
    CHECK(started == (id == 4 ? Ids{10} : Ids{}));
  }
}

TEST_CASE("A job with a short time limit fills the gap before a big one") {
  Queue queue(gpus(2));
  queue.add(job(1, 0, 1, hours(2)));
  REQUIRE(start_all(queue, seconds(0)) == Ids{1});
  queue.add(job(2, 1, 2));
  queue.add(job(3, 2, 1, hours(3)));
  queue.add(job(4, 3, 1, hours(1)));
  queue.add(job(5, 4, 1));
  CHECK(start_all(queue, seconds(0)) == Ids{4});
  CHECK(queue.outlook(2, seconds(0)).obstruction == Obstruction::kBusy);
  CHECK(queue.outlook(3, seconds(0)).obstruction == Obstruction::kBusy);
  queue.ended(4, minutes(30));
  CHECK(start_all(queue, minutes(30)).empty());
  CHECK(queue.outlook(3, minutes(30)).obstruction == Obstruction::kReserved);
  CHECK(queue.outlook(5, minutes(30)).before == Ids{2, 3});
}

TEST_CASE("A device that the big job will not need is given to jobs without a time limit") {
  Queue queue(gpus(4));
  queue.add(job(1, 0, 2, hours(2)));
  REQUIRE(start_all(queue, seconds(0)) == Ids{1});
  queue.add(job(2, 1, 3));
  // Two devices are free. Job 2 waits for three devices, until job 1 returns two more. So one
  // device stays free, and job 3 can have it.
  queue.add(job(3, 2, 1));
  CHECK(start_all(queue, seconds(0)) == Ids{3});
}

TEST_CASE("Devices that become free later are reserved rather than those that are free now") {
  Queue queue(gpus(4));
  queue.add(job(1, 0, 2, hours(2)));
  queue.started(1, {2, 3}, seconds(0));
  queue.add(job(2, 1, 3));
  queue.add(job(3, 2, 1));
  CHECK(start_all(queue, seconds(0)) == Ids{3});
  queue.ended(1, minutes(1));
  CHECK(start_all(queue, minutes(1)) == Ids{2});
}

TEST_CASE("Memory on shared devices is never promised twice") {
  Queue queue(gpus(1, 24 * kGiB));
  for (JobId id = 1; id <= 4; ++id) {
    WaitingJob part = job(id, static_cast<int>(id), 1);
    part.demand.memory_bytes = 8 * kGiB;
    queue.add(part);
  }
  CHECK(start_all(queue, seconds(0)) == Ids{1, 2, 3});
  queue.add(job(9, 9, 1));
  queue.ended(1, minutes(1));
  CHECK(start_all(queue, minutes(1)) == Ids{4});
  for (const JobId id : Ids{2, 3, 4}) queue.ended(id, minutes(2));
  CHECK(start_all(queue, minutes(2)) == Ids{9});
}

TEST_CASE("A user's thousand different jobs do not hide another user's job") {
  Queue queue(gpus(4));
  queue.set_user(1, {.most_devices = 1});
  JobId id = 0;
  for (const bool is_limited : {true, false})
    for (int i = 0; i < 3000; ++i) {
      ++id;
      queue.add(job(id, is_limited ? 1 : 3, is_limited ? 2 : 9, minutes(100 + i)));
    }
  queue.add(job(9000, 2, 1));
  CHECK(start_all(queue, seconds(0)) == Ids{9000});
  CHECK(queue.outlook(1, seconds(0)).obstruction == Obstruction::kUserLimit);
}

TEST_CASE("The longest possible time limit does not overflow and fill a gap") {
  Queue queue(gpus(2));
  queue.add(job(1, 1, 1, minutes(10)));
  CHECK(start_all(queue, seconds(0)) == Ids{1});
  queue.add(job(2, 2, 2));
  queue.add(job(3, 3, 1, milliseconds::max()));
  CHECK(start_all(queue, seconds(1)).empty());
}

TEST_CASE("A device's time is never promised twice") {
  Queue queue(gpus(1, 24 * kGiB));
  for (JobId id = 1; id <= 4; ++id) {
    WaitingJob part = job(id, static_cast<int>(id), 1);
    part.demand.memory_bytes = kGiB;
    part.demand.share_permille = 400;
    queue.add(part);
  }
  CHECK(start_all(queue, seconds(0)) == Ids{1, 2});
  queue.ended(2, minutes(1));
  CHECK(start_all(queue, minutes(1)) == Ids{3});
  WaitingJob no_part = job(9, 9, 1);
  no_part.demand.memory_bytes = kGiB;
  queue.add(no_part);
  CHECK(start_all(queue, minutes(1)) == Ids{9});
}

TEST_CASE("A foreign process prevents an exclusive lease, and its memory is not shared") {
  Pool machine = gpus(2);
  machine.devices[0].in_use = true;
  machine.devices[0].memory_taken_bytes = 20 * kGiB;
  Queue queue(machine);
  queue.add(job(1, 0, 2));
  CHECK(start_all(queue, seconds(0)).empty());
  CHECK(queue.outlook(1, seconds(0)).obstruction == Obstruction::kBusy);
  WaitingJob part = job(2, 1, 1, minutes(1));
  part.demand.memory_bytes = 5 * kGiB;
  queue.add(part);
  const auto start = queue.next(seconds(0));
  REQUIRE(start);
  CHECK(start->devices == std::vector<int>{1});
}

TEST_CASE("A user's limit applies only to that user") {
  Queue queue(gpus(4));
  queue.set_user(0, {.most_devices = 2});
  queue.set_user(1, {.most_jobs = 1});
  for (JobId id = 1; id <= 3; ++id) queue.add(job(id, 0, 1));
  for (JobId id = 4; id <= 5; ++id) queue.add(job(id, 1, 1));
  WaitingJob other = job(6, 2, 1);
  other.time_limit = seconds(90);
  queue.add(other);
  CHECK(start_all(queue, seconds(0)).size() == 4);
  CHECK(queue.outlook(3, seconds(0)).obstruction == Obstruction::kUserLimit);
  CHECK(queue.outlook(5, seconds(0)).obstruction == Obstruction::kUserLimit);
  CHECK(queue.waiting(6) == nullptr);
  // User 0 is at the limit and has to wait for the end of the user's own job, even if other devices
  // become free earlier.
  CHECK(queue.fits_at(0, {.devices = 1}, seconds(60)) == Instant(seconds(120)));
  CHECK_FALSE(queue.fits_at(0, {.devices = 3}, seconds(60)));
  CHECK(queue.fits_at(3, {.devices = 1}, seconds(60)) == Instant(seconds(90)));
}

TEST_CASE("A low-tier job runs after a day of waiting, even if others keep coming") {
  Queue queue(gpus(1));
  WaitingJob low = job(1, 0, 1);
  low.tier = -1;
  queue.add(low);
  queue.add(job(2, 1, 1));
  CHECK(start_all(queue, seconds(0)) == Ids{2});
  queue.ended(2, hours(25));
  WaitingJob other = job(3, 1, 1);
  other.queued = hours(25);
  queue.add(other);
  CHECK(start_all(queue, hours(25)) == Ids{1});
}

TEST_CASE("Missing devices are distinguished from busy ones") {
  Queue queue(gpus(2));
  queue.add(job(1, 0, 3));
  queue.add(job(2, 0, 2));
  CHECK(queue.outlook(1, seconds(0)).obstruction == Obstruction::kNever);
  CHECK(start_all(queue, seconds(0)) == Ids{2});
  CHECK_FALSE(queue.fits_at(0, {.devices = 3}, seconds(0)));
  CHECK(queue.fits_at(0, {.devices = 1}, seconds(10)) == Instant(minutes(1) + seconds(10)));
}

TEST_CASE("A drained device is not leased until it is resumed") {
  Queue queue(gpus(1));
  Pool drained = gpus(1);
  drained.devices[0].usable = false;
  queue.set_machine(drained);
  queue.add(job(1, 0, 1));
  CHECK(start_all(queue, seconds(0)).empty());
  queue.set_machine(gpus(1));
  CHECK(start_all(queue, seconds(1)) == Ids{1});
}

namespace {

/// No device is given to two jobs, and no more memory than a device has.
bool is_given_once(const std::vector<RunningJob>& running, const Pool& machine) {
  struct Given {
    std::uint64_t memory = 0;
    int leases = 0, whole = 0;
  };
  std::vector<Given> given(machine.devices.size());
  for (const RunningJob& one : running)
    for (const int device : one.devices) {
      Given& what = given.at(static_cast<std::size_t>(device));
      ++what.leases;
      what.memory += one.demand.memory_bytes;
      what.whole += one.demand.memory_bytes == 0 ? 1 : 0;
    }
  for (std::size_t at = 0; at < given.size(); ++at)
    if (given[at].memory > machine.devices[at].memory_bytes ||
        (given[at].whole > 0 && given[at].leases > 1))
      return false;
  return true;
}

}  // namespace

TEST_CASE("In random sequences no device is leased twice and all are returned") {
  for (unsigned seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const Pool empty = gpus(1 + below(8));
    Queue queue(empty);
    std::vector<RunningJob> running;
    JobId id = 0;
    Instant now{0};
    for (int step = 0; step < 400; ++step, now += seconds(below(100))) {
      if (below(2) == 0) {
        WaitingJob next = job(++id, below(4), below(4), minutes(below(3) * 20));
        next.demand.cpus = below(6);
        next.demand.memory_bytes = static_cast<std::uint64_t>(below(2) * (1 + below(12))) * kGiB;
        next.priority = below(3);
        next.tier = below(3) - 1;
        next.queued = now;
        queue.add(next);
      }
      if (id > 0 && below(20) == 0) queue.remove(1 + random() % id, now);
      while (const auto start = queue.next(now)) {
        queue.started(start->job, start->devices, now);
        running.push_back(*queue.running(start->job));
      }
      if (!running.empty() && below(2) == 0) {
        const auto at = running.begin() + below(static_cast<int>(running.size()));
        queue.ended(at->id, now);
        running.erase(at);
      }
      CAPTURE(step);
      REQUIRE(is_given_once(running, empty));
    }
    for (const RunningJob& one : running) queue.ended(one.id, now);
    CHECK(queue.pool() == empty);
  }
}

namespace {

WaitingJob preemptible(JobId id, int user, int devices) {
  WaitingJob out = job(id, user, devices);
  out.tier = kPreemptibleTier;
  return out;
}

}  // namespace

TEST_CASE("Preemptible jobs start last, however long they have waited") {
  Queue queue(gpus(1));
  queue.add(preemptible(1, 0, 1));
  queue.add(job(2, 1, 1));
  CHECK(start_all(queue, hours(1000)) == Ids{2});
}

TEST_CASE(
    "For a job that does not fit, as few preemptible jobs as possible end, the newest first") {
  Queue queue(gpus(4));
  for (const JobId id : Ids{1, 2, 3}) queue.add(preemptible(id, 0, 1));
  queue.add(job(4, 1, 1));
  CHECK(start_all(queue, seconds(0)) == Ids{4, 1, 2, 3});
  CHECK_FALSE(queue.preemption(seconds(1)));  // no job waits

  queue.add(job(5, 1, 2));
  const auto found = queue.preemption(seconds(2));
  REQUIRE(found);
  CHECK(found->for_job == 5);
  CHECK(found->jobs == Ids{3, 2});
  // While these two jobs are ending, no other job is preempted.
  queue.leaves(3);
  queue.leaves(2);
  CHECK_FALSE(queue.preemption(seconds(2)));
  queue.ended(3, seconds(3));
  queue.add(preemptible(3, 0, 1));
  // The preempted job does not get back the device that it had.
  CHECK_FALSE(queue.next(seconds(3)));
  queue.ended(2, seconds(3));
  CHECK(start_all(queue, seconds(3)) == Ids{5});
}

TEST_CASE("No job ends for a job that would still not fit, or for a preemptible one") {
  Queue queue(gpus(2));
  queue.add(preemptible(1, 0, 1));
  queue.add(job(2, 1, 1));
  CHECK(start_all(queue, seconds(0)) == Ids{2, 1});
  queue.add(preemptible(3, 1, 1));
  CHECK_FALSE(queue.preemption(seconds(1)));
  // Job 4 needs both devices, and job 2 keeps one of them. So it does not help to end job 1.
  queue.add(job(4, 1, 2));
  CHECK_FALSE(queue.preemption(seconds(1)));
}

TEST_CASE("A later job makes a preemptible one end if the first could not start by that") {
  Queue queue(gpus(3));
  queue.add(job(1, 1, 1, hours(1)));
  queue.add(preemptible(2, 0, 1));
  queue.add(preemptible(3, 0, 1));
  CHECK(start_all(queue, seconds(0)) == Ids{1, 2, 3});
  queue.add(job(4, 2, 3));  // needs three devices, but job 1 keeps one for an hour
  CHECK_FALSE(queue.preemption(seconds(1)));
  SUBCASE("a job that has ended by then") {
    queue.add(job(5, 2, 1, minutes(10)));
    const auto found = queue.preemption(seconds(1));
    REQUIRE(found);
    CHECK(found->for_job == 5);
    CHECK(found->jobs == Ids{3});
    queue.leaves(3);
    CHECK_FALSE(queue.preemption(seconds(1)));
    queue.ended(3, seconds(2));
    CHECK(start_all(queue, seconds(2)) == Ids{5});
  }
  SUBCASE("not one that would delay the first") {
    queue.add(job(5, 2, 1));
    CHECK_FALSE(queue.preemption(seconds(1)));
  }
}

TEST_CASE("A preemptible job that is not in the way keeps running") {
  Queue queue(gpus(2));
  queue.add(preemptible(1, 0, 1));
  CHECK(start_all(queue, seconds(0)) == Ids{1});
  queue.add(preemptible(2, 0, 1));
  CHECK(start_all(queue, seconds(1)) == Ids{2});
  WaitingJob fixed = job(3, 1, 1);
  fixed.demand.allowed = {0};  // device 0 belongs to the older job
  queue.add(fixed);
  const auto found = queue.preemption(seconds(2));
  REQUIRE(found);
  CHECK(found->jobs == Ids{1});
}
