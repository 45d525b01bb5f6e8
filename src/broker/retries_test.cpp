// A job that the broker starts goes back to the queue for its next try.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "broker/broker.hpp"
#include "broker/job_record.hpp"
#include "broker/machines_for_tests.hpp"

using namespace berth::broker::for_tests;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using berth::broker::Broker;
using berth::broker::Job;
using berth::broker::job_of;
using berth::broker::JobId;
using berth::broker::JobState;
using berth::broker::next_try_of;
using berth::broker::record_of;
using berth::model::Outcome;
using berth::model::OutcomeClass;
using berth::model::QueuedTry;

namespace {

const Outcome kFailed{OutcomeClass::kFailed, 1, std::nullopt};

Job queued(int devices, std::uint32_t uid = 1) {
  Job job = wants(devices, uid);
  job.queued = true;
  return job;
}

/// Ends the job so that it gets a next try. The next try must not get the devices of this try.
void fail(Broker& broker, JobId id, int seconds, std::chrono::milliseconds pause = 0ms) {
  QueuedTry next{2, "device fault", {}, pause};
  for (const auto& grant : broker.job(id)->grants) next.without.push_back(grant.unit);
  REQUIRE(broker.set_next_try(id, next));
  broker.end(id, JobState::kWaiting, kFailed, "try 1 ended: device fault", at(seconds));
}

}  // namespace

TEST_CASE("the next try gets another device, and no device on which an earlier try failed") {
  Broker broker = on(gpus(3));
  const JobId id = submit(broker, queued(1));
  std::vector<std::string> had;
  for (int number = 1; number <= 3; ++number) {
    REQUIRE(broker.start_what_fits(at(number)) == std::vector{id});
    CHECK(std::find(had.begin(), had.end(), unit(broker, id)) == had.end());
    had.push_back(unit(broker, id));
    if (number < 3) fail(broker, id, number);
  }
  CHECK(broker.job(id)->retries == 2);
  CHECK(broker.job(id)->preemptions == 0);
  CHECK(broker.job(id)->avoids == std::vector{had[0], had[1]});
  CHECK(broker.job(id)->request.without.empty());
}

TEST_CASE("a job cannot go back if no device would be left, if it waits, or if it is being ended") {
  Broker broker = on(gpus(1));
  const JobId id = submit(broker, queued(1));
  const QueuedTry next{2, "device fault", {"GPU-0"}, 0ms};
  CHECK(broker.set_next_try(id, next).error().id == "E0993");
  REQUIRE(broker.start_what_fits(at(1)).size() == 1);
  CHECK(broker.set_next_try(id, next).error().id == "E0994");
  CHECK(broker.set_next_try(id, {2, "out of memory", {}, 0ms}));
  broker.tell_to_end(id, {JobState::kCancelled, "", "li"});
  CHECK(broker.set_next_try(id, {2, "out of memory", {}, 0ms}).error().id == "E0993");
  CHECK(broker.set_next_try(99, next).error().id == "E0901");

  const JobId lease = submit(broker, wants(0), 2);
  REQUIRE(broker.start_what_fits(at(2)) == std::vector{lease});
  CHECK(broker.set_next_try(lease, {2, "killed", {}, 0ms}).error().id == "E0993");
}

TEST_CASE("the other devices are waited for, and meanwhile the job can be cancelled") {
  Broker broker = on(gpus(2));
  const JobId id = submit(broker, queued(1));
  const JobId other = submit(broker, queued(1, 2));
  REQUIRE(broker.start_what_fits(at(1)).size() == 2);
  const std::string failed = unit(broker, id);
  fail(broker, id, 2);
  CHECK(broker.start_what_fits(at(2)).empty());
  CHECK(broker.job(id)->state == JobState::kWaiting);
  CHECK(broker.job(id)->last_outcome->exit_code == 1);
  CHECK_FALSE(broker.job(id)->outcome);
  // Other jobs can get the device on which the job failed.
  const JobId third = submit(broker, queued(1, 3), 3);
  CHECK(broker.start_what_fits(at(3)) == std::vector{third});
  CHECK(unit(broker, third) == failed);

  Broker restarted = on(gpus(2));
  restarted.restore(*broker.job(id), at(4));
  CHECK(restarted.cancel(id, {1, false, "u1"}, at(4)));
  CHECK(restarted.job(id)->state == JobState::kCancelled);
  CHECK(restarted.start_what_fits(at(4)).empty());
  broker.end(other, JobState::kDone, {}, "", at(4));
  CHECK(broker.start_what_fits(at(4)) == std::vector{id});
  CHECK(unit(broker, id) != failed);
}

TEST_CASE("a job is outside the queue until its pause is over, also after a restart") {
  Broker broker = on(gpus(2));
  const JobId id = submit(broker, queued(1));
  REQUIRE(broker.start_what_fits(at(1)).size() == 1);
  fail(broker, id, 2, 10s);
  CHECK(broker.start_what_fits(at(3)).empty());
  CHECK(broker.next_pause_end() == at(12).steady);
  CHECK(broker.pauses_until(id) == at(12).steady);
  // A job that pauses does not prevent other jobs from starting.
  const JobId other = submit(broker, queued(2, 2), 3);
  CHECK(broker.start_what_fits(at(3)) == std::vector{other});
  broker.end(other, JobState::kDone, {}, "", at(4));

  const auto stored = job_of(record_of(*broker.job(id)));
  REQUIRE(stored);
  Broker restarted = on(gpus(2));
  restarted.restore(*stored, at(5));
  for (Broker* one : {&broker, &restarted}) {
    one->end_pauses(at(11).steady);
    CHECK(one->start_what_fits(at(11)).empty());
    one->end_pauses(at(12).steady);
    CHECK_FALSE(one->next_pause_end());
    CHECK(one->start_what_fits(at(12)) == std::vector{id});
    CHECK(unit(*one, id) == "GPU-1");
  }
}

TEST_CASE("a release ends the pause, and a cancel does too") {
  Broker broker = on(gpus(2));
  const JobId id = submit(broker, queued(1));
  REQUIRE(broker.start_what_fits(at(1)).size() == 1);
  fail(broker, id, 2, 60s);
  Broker restarted = on(gpus(2));
  restarted.restore(*broker.job(id), at(3));
  CHECK(restarted.next_pause_end());
  CHECK(restarted.cancel(id, {1, false, "u1"}, at(3)));
  CHECK_FALSE(restarted.next_pause_end());
  CHECK(broker.hold(id, true, {1, false, "u1"}, at(3)));
  CHECK(broker.hold(id, false, {1, false, "u1"}, at(4)));
  CHECK_FALSE(broker.next_pause_end());
  CHECK(broker.start_what_fits(at(4)) == std::vector{id});
}

TEST_CASE("the time limit counts the run time of all tries, and no waiting") {
  Broker broker = on(gpus(2));
  Job job = queued(1);
  job.time_limit = 100s;
  const JobId id = submit(broker, job);
  REQUIRE(broker.start_what_fits(at(10)).size() == 1);
  fail(broker, id, 40, 20s);
  broker.end_pauses(at(60).steady);
  REQUIRE(broker.start_what_fits(at(60)).size() == 1);
  CHECK(broker.queue().running(id)->time_limit == 70s);
  CHECK(broker.job(id)->time_limit == 100s);
  Broker restarted = on(gpus(2));
  restarted.restore(*broker.job(id), at(61));
  CHECK(restarted.queue().running(id)->time_limit == 70s);
}

TEST_CASE("if the other devices have disappeared meanwhile, the job avoids none") {
  Broker broker = on(gpus(2));
  const JobId id = submit(broker, queued(1));
  REQUIRE(broker.start_what_fits(at(1)).size() == 1);
  REQUIRE(unit(broker, id) == "GPU-0");
  fail(broker, id, 2);
  const Job waiting = *broker.job(id);
  Broker restarted = on(gpus(1));
  restarted.restore(waiting, at(3));
  CHECK(restarted.start_what_fits(at(3)) == std::vector{id});
  CHECK(restarted.job(id)->avoids.empty());
}

TEST_CASE("what a job asked for its next try is stored, and absurd requests are refused") {
  Job job = queued(1);
  job.next_try = QueuedTry{3, "out of memory", {"GPU-1", "GPU-2"}, 1500ms};
  job.retries = 2;
  job.ran_before = 4s;
  const auto back = job_of(record_of(job));
  REQUIRE(back);
  REQUIRE(back->next_try);
  CHECK(back->next_try->number == 3);
  CHECK(back->next_try->after == "out of memory");
  CHECK(back->next_try->without == job.next_try->without);
  CHECK(back->next_try->pause == 1500ms);
  CHECK(back->retries == 2);
  CHECK(back->ran_before == 4s);
  CHECK(next_try_of(record_of(*job.next_try))->without == job.next_try->without);
  for (const char* bad : {R"({"number":1,"after":"killed"})", R"({"number":2,"after":"bad luck"})",
                          R"({"number":2,"after":"killed","pause_milliseconds":-1})",
                          R"({"number":2,"after":"killed","state":"done"})",
                          R"({"number":2,"after":"killed","without":"GPU-1"})", "[]", "{"})
    CHECK_FALSE(next_try_of(bad));
}
