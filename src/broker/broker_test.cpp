#include "broker/broker.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "broker/machines_for_tests.hpp"

using namespace berth::broker::for_tests;  // NOLINT(google-build-using-namespace)
using berth::broker::Broker;
using berth::broker::Job;
using berth::broker::JobId;
using berth::broker::JobState;
using berth::broker::Now;
using berth::model::Device;
using berth::model::Snapshot;

TEST_CASE("three jobs for two devices: the third waits and starts when one ends") {
  Broker broker = on(gpus(2));
  const JobId one = submit(broker, wants(1));
  const JobId two = submit(broker, wants(1, 2));
  const JobId three = submit(broker, wants(1, 3));
  CHECK(broker.start_what_fits(at(1)) == std::vector{one, two});
  CHECK(unit(broker, one) != unit(broker, two));
  CHECK(broker.job(three)->state == JobState::kWaiting);
  CHECK(broker.changed() == std::set{one, two, three});
  CHECK(broker.changed().empty());
  const std::string freed = unit(broker, two);
  broker.end(two, JobState::kDone, {}, "", at(2));
  CHECK(broker.start_what_fits(at(2)) == std::vector{three});
  CHECK(unit(broker, three) == freed);
  CHECK(broker.changed() == std::set{two, three});
}

TEST_CASE("the last snapshot of an ended job does not keep its device from the next job") {
  Broker broker = on(gpus(1));
  const JobId one = submit(broker, wants(1));
  REQUIRE(broker.start_what_fits(at(0)).size() == 1);
  Snapshot busy = gpus(1);
  busy.processes.push_back({});
  busy.processes[0].device = 0;
  busy.processes[0].pid = 99;
  busy.processes[0].kind.compute = true;
  busy.processes[0].memory_bytes = 10 * kGiB;
  busy.devices[0].readings.memory_used_bytes = 10 * kGiB;
  broker.see(busy, {{99, one}});
  const JobId two = submit(broker, wants(1, 2));
  CHECK(broker.start_what_fits(at(1)).empty());
  broker.end(one, JobState::kDone, {}, "", at(2));
  CHECK(broker.start_what_fits(at(2)) == std::vector{two});
}

TEST_CASE("a foreign process blocks its device until it ends") {
  Broker broker;
  Snapshot busy = gpus(1);
  busy.processes.push_back({});
  busy.processes[0].device = 0;
  busy.processes[0].pid = 99;
  busy.processes[0].kind.compute = true;
  broker.see(busy, {});
  const JobId one = submit(broker, wants(1));
  CHECK(broker.start_what_fits(at(1)).empty());
  broker.see(gpus(1), {});
  CHECK(broker.start_what_fits(at(2)) == std::vector{one});
}

TEST_CASE("a dependent job starts after its dependency, or is cancelled with it") {
  Broker broker = on(gpus(4));
  const JobId first = submit(broker, wants(1));
  Job next = wants(1);
  next.after = {first};
  const JobId second = submit(broker, next);
  next.after = {second};
  const JobId third = submit(broker, next);
  CHECK(broker.start_what_fits(at(1)) == std::vector{first});
  broker.end(first, JobState::kDone, {}, "", at(2));
  CHECK(broker.start_what_fits(at(2)) == std::vector{second});
  broker.end(second, JobState::kFailed, {}, "", at(3));
  CHECK(broker.job(third)->state == JobState::kCancelled);
  CHECK_FALSE(broker.job(third)->why.empty());
  next.after = {77};
  CHECK(broker.submit(next, at(4)).error().id == "E0901");
  next.after = {second};
  CHECK(broker.submit(next, at(4)).error().id == "E0903");
  Job strange = wants(1, 9);
  strange.after = {first};
  CHECK(broker.submit(strange, at(4)).error().id == "E0902");
}

TEST_CASE("only its user or an administrator cancels, holds and releases a job") {
  Broker broker = on(gpus(1));
  const JobId one = submit(broker, wants(1));
  const JobId two = submit(broker, wants(1));
  REQUIRE(broker.start_what_fits(at(0)).size() == 1);
  CHECK(broker.cancel(two, {2, false}, at(1)).error().id == "E0902");
  CHECK(broker.hold(two, true, {1, false}, at(1)));
  broker.end(one, JobState::kDone, {}, "", at(2));
  CHECK(broker.start_what_fits(at(2)).empty());
  CHECK(broker.hold(two, false, {1, false}, at(3)));
  CHECK(broker.start_what_fits(at(3)) == std::vector{two});
  CHECK(broker.cancel(two, {1, false}, at(4)).error().id == "E0903");
  const JobId three = submit(broker, wants(1));
  CHECK(broker.cancel(three, {0, true}, at(5)));
  CHECK(broker.cancel(99, {0, true}, at(5)).error().id == "E0901");
}

TEST_CASE("a drained device gets no new job, and says so") {
  Broker broker = on(gpus(2));
  REQUIRE(broker.drain("GPU-0", true));
  const JobId one = submit(broker, wants(1));
  const JobId two = submit(broker, wants(1));
  CHECK(broker.start_what_fits(at(0)) == std::vector{one});
  CHECK(unit(broker, one) == "GPU-1");
  REQUIRE(broker.drain("GPU-0", false));
  CHECK(broker.start_what_fits(at(1)) == std::vector{two});
  CHECK(broker.drain("GPU-7", true).error().id == "E0413");
}

TEST_CASE("a device that is lent comes back only from the scheduler that has it") {
  Broker broker = on(gpus(1));
  REQUIRE(broker.lend("GPU-0", "slurm", true));
  CHECK(broker.drain("GPU-0", false).error().id == "E1014");
  REQUIRE(broker.drain("GPU-0", true));
  CHECK_MESSAGE(broker.drain("GPU-0", false).error().id == "E1014", "it is still lent");
  broker.restore_drained(broker.drained(), broker.lent());
  const JobId one = submit(broker, wants(1));
  CHECK(broker.start_what_fits(at(0)).empty());
  CHECK(broker.lend("GPU-0", "kubernetes", true).error().id == "E1014");
  CHECK(broker.lend("GPU-0", "kubernetes", false).error().id == "E1014");
  CHECK(broker.lent().at("GPU-0") == "slurm");
  REQUIRE(broker.lend("GPU-0", "slurm", false));
  REQUIRE_MESSAGE(broker.lend("GPU-0", "slurm", false), "it may be repeated");
  CHECK(broker.lent().empty());
  CHECK_MESSAGE(broker.start_what_fits(at(1)).empty(), "a person's drain outlives the loan");
  REQUIRE(broker.drain("GPU-0", false));
  CHECK(broker.start_what_fits(at(2)) == std::vector{one});
  CHECK(broker.lend("GPU-7", "slurm", true).error().id == "E0413");
}

TEST_CASE("restored jobs are unchanged: running jobs keep their devices, waiting jobs wait") {
  Broker before = on(gpus(2));
  const JobId one = submit(before, wants(1));
  const JobId two = submit(before, wants(2));
  Job next = wants(1);
  next.after = {two};
  const JobId three = submit(before, next);
  REQUIRE(before.start_what_fits(at(1)).size() == 1);
  Broker after = on(gpus(2));
  for (const auto& [id, job] : before.jobs()) after.restore(job, at(10));
  CHECK(after.start_what_fits(at(10)).empty());
  CHECK(unit(after, one) == unit(before, one));
  CHECK(submit(after, wants(1), 11) == three + 1);
  after.end(one, JobState::kDone, {}, "", at(12));
  CHECK(after.start_what_fits(at(12)) == std::vector{two});
  after.end(two, JobState::kDone, {}, "", at(13));
  CHECK(after.start_what_fits(at(13)).size() == 2);
}

TEST_CASE("a device that another broker has leased is not leased until it is free there") {
  Broker broker = on(gpus(2));
  broker.set_elsewhere({"GPU-0"});
  const JobId one = submit(broker, wants(1));
  const JobId two = submit(broker, wants(1));
  CHECK(broker.start_what_fits(at(0)) == std::vector<JobId>{one});
  CHECK(broker.job(one)->grants.at(0).unit == "GPU-1");
  broker.set_elsewhere({});
  CHECK(broker.start_what_fits(at(1)) == std::vector<JobId>{two});
  CHECK(broker.job(two)->grants.at(0).unit == "GPU-0");
}

TEST_CASE("the newest job is never forgotten, so that no number is used twice") {
  Broker broker = on(gpus(2));
  const JobId one = submit(broker, wants(1));
  const JobId two = submit(broker, wants(1));
  static_cast<void>(broker.start_what_fits(at(0)));
  for (const JobId id : {one, two}) broker.end(id, JobState::kDone, {}, "", at(1));
  CHECK(broker.forget_ended_before(at(100).unix_milliseconds) == std::vector<JobId>{one});
  CHECK(broker.job(two) != nullptr);
}

TEST_CASE("if the clock is set, recorded times move, except those from before the last boot") {
  Broker broker = on(gpus(1));
  Job old = wants(1);
  old.id = 7;
  old.state = JobState::kDone;
  old.submitted_unix_milliseconds = 1000;
  old.started_unix_milliseconds = 2000;
  old.ended_unix_milliseconds = 3000;
  broker.restore(old, at(0));
  const JobId runs = submit(broker, wants(1), 10);
  REQUIRE(broker.start_what_fits(at(20)).size() == 1);
  const JobId waits = submit(broker, wants(1), 30);
  static_cast<void>(broker.changed());
  const auto time = [](int seconds) { return at(seconds).unix_milliseconds; };
  broker.move_times(time(0), time(40), -3'600'000);
  CHECK(broker.changed() == std::set{runs, waits});
  CHECK(broker.job(runs)->submitted_unix_milliseconds == time(10 - 3600));
  CHECK(broker.job(runs)->started_unix_milliseconds == time(20 - 3600));
  CHECK(broker.job(waits)->submitted_unix_milliseconds == time(30 - 3600));
  CHECK(broker.job(7)->ended_unix_milliseconds == 3000);
}

TEST_CASE("the list of all jobs follows each change") {
  Broker broker = on(gpus(1));
  const auto is_whole = [&] {
    const auto& all = broker.all_jobs();
    return std::equal(all.begin(), all.end(), broker.jobs().begin(), broker.jobs().end(),
                      [](const Job* a, const auto& b) { return a == &b.second; });
  };
  std::vector<JobId> ids;
  for (int i = 0; i < 5; ++i) {
    ids.push_back(submit(broker, wants(1)));
    CHECK(is_whole());
  }
  REQUIRE(broker.start_what_fits(at(1)) == std::vector{ids[0]});
  REQUIRE(broker.withdraw(ids[2], at(1)));
  CHECK(is_whole());
  ids.push_back(submit(broker, wants(1)));
  CHECK(is_whole());
  broker.end(ids[0], JobState::kDone, {}, "", at(2));
  CHECK(broker.forget_ended_before(at(100).unix_milliseconds) == std::vector{ids[0]});
  ids.push_back(submit(broker, wants(1)));
  CHECK(is_whole());
  Job restored = wants(1);
  restored.id = 3;
  broker.restore(restored, at(3));
  CHECK(is_whole());
  CHECK(broker.all_jobs().size() == 6);
}

TEST_CASE("a preemptible job ends for another one, waits again and starts when that has ended") {
  Broker broker = on(gpus(1));
  Job spare = wants(1);
  spare.queued = spare.preemptible = true;
  const JobId one = submit(broker, spare);
  CHECK(broker.start_what_fits(at(1)) == std::vector{one});
  CHECK(broker.to_preempt(at(1)).empty());
  const JobId two = submit(broker, wants(1, 2), 2);
  CHECK(broker.start_what_fits(at(2)).empty());
  const auto told = broker.to_preempt(at(2));
  REQUIRE(told.size() == 1);
  CHECK(told[0].first == one);
  CHECK(told[0].second == "job 2 of u2 needs the devices");
  broker.tell_to_end(one, {JobState::kWaiting, told[0].second, ""});
  CHECK(broker.to_preempt(at(2)).empty());

  broker.end(one, JobState::kWaiting, {}, told[0].second, at(3));
  CHECK(broker.job(one)->state == JobState::kWaiting);
  CHECK(broker.job(one)->preemptions == 1);
  CHECK_FALSE(broker.job(one)->told_to_end);
  CHECK_FALSE(broker.job(one)->outcome);
  CHECK(broker.start_what_fits(at(3)) == std::vector{two});

  Broker restarted = on(gpus(1));
  restarted.restore(*broker.job(two), at(4));
  restarted.restore(*broker.job(one), at(4));
  CHECK(restarted.start_what_fits(at(4)).empty());
  restarted.end(two, JobState::kDone, {}, "", at(5));
  CHECK(restarted.start_what_fits(at(5)) == std::vector{one});
  CHECK(restarted.job(one)->preemptions == 1);
}

TEST_CASE("a preempted task of an array keeps its place in the array") {
  Broker broker = on(gpus(1));
  Job spare = wants(1);
  spare.queued = spare.preemptible = true;
  const auto array = broker.submit_array(spare, *berth::model::parse_array_range("1-2%1"), at(0));
  REQUIRE(array);
  const auto started = broker.start_what_fits(at(1));
  REQUIRE(started.size() == 1);
  const JobId two = submit(broker, wants(1, 2), 2);
  const auto told = broker.to_preempt(at(2));
  REQUIRE(told.size() == 1);
  broker.tell_to_end(told[0].first, {JobState::kWaiting, "", ""});
  broker.end(told[0].first, JobState::kWaiting, {}, "", at(3));
  CHECK(broker.start_what_fits(at(3)) == std::vector{two});
  broker.end(two, JobState::kDone, {}, "", at(4));
  CHECK(broker.start_what_fits(at(4)) == started);
}
