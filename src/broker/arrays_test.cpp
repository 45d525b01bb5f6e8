#include "broker/arrays.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "broker/machines_for_tests.hpp"
#include "model/array_range.hpp"

using namespace berth::broker::for_tests;  // NOLINT(google-build-using-namespace)
using berth::broker::Broker;
using berth::broker::Job;
using berth::broker::JobId;
using berth::broker::JobState;
using berth::model::parse_array_range;

namespace {

JobId submit_array(Broker& broker, const Job& job, const char* range) {
  const auto id = broker.submit_array(job, *parse_array_range(range), at(0));
  REQUIRE(id);
  return *id;
}

std::size_t count(const Broker& broker, JobId array, JobState state) {
  const auto jobs = broker.jobs_of_array(array);
  return static_cast<std::size_t>(std::count_if(
      jobs.begin(), jobs.end(), [&](JobId id) { return broker.job(id)->state == state; }));
}

void end_well(Broker& broker, JobId id) {
  broker.end(id, JobState::kDone, {}, "", at(1));
}

}  // namespace

TEST_CASE("an array runs at most its limit of jobs at a time, and each job once") {
  Broker broker = on(gpus(8));
  const JobId array = submit_array(broker, wants(1), "1-20%3");
  std::set<JobId> ran;
  for (;;) {
    const auto started = broker.start_what_fits(at(1));
    for (const JobId id : started) CHECK(ran.insert(id).second);
    CHECK(count(broker, array, JobState::kRunning) <= 3);
    if (ran.size() < 20) CHECK(count(broker, array, JobState::kRunning) == 3);
    if (count(broker, array, JobState::kRunning) == 0) break;
    for (const JobId id : broker.jobs_of_array(array))
      if (broker.job(id)->state == JobState::kRunning) {
        end_well(broker, id);
        break;
      }
  }
  CHECK(ran == broker.jobs_of_array(array));
  CHECK(count(broker, array, JobState::kDone) == 20);
}

TEST_CASE("an array without a limit uses all free devices") {
  Broker broker = on(gpus(4));
  const JobId array = submit_array(broker, wants(1), "0-9");
  CHECK(broker.start_what_fits(at(1)).size() == 4);
  CHECK(broker.jobs_of_array(array).size() == 10);
  CHECK(broker.job(array) == nullptr);
  CHECK(broker.job(array + 10)->task->index == 9);
}

TEST_CASE("a held or cancelled job makes room for the next job of its array") {
  Broker broker = on(gpus(8));
  const JobId array = submit_array(broker, wants(1), "1-4%1");
  const JobId one = array + 1, two = array + 2, three = array + 3, four = array + 4;
  REQUIRE(broker.hold(one, true, {1}, at(1)));
  REQUIRE(broker.cancel(two, {1}, at(1)));
  CHECK(broker.start_what_fits(at(1)) == std::vector{three});
  CHECK(broker.waits_for_its_array(*broker.job(four)));
  REQUIRE(broker.hold(one, false, {1}, at(2)));
  CHECK(broker.start_what_fits(at(2)).empty());
  end_well(broker, three);
  CHECK(broker.start_what_fits(at(3)) == std::vector{one});
}

TEST_CASE("a job after an array waits for all of it, and is cancelled if one of its jobs failed") {
  for (const bool well : {true, false}) {
    Broker broker = on(gpus(2));
    const JobId array = submit_array(broker, wants(1), "1-2");
    Job next = wants(1);
    next.after = {array};
    const JobId after = submit(broker, next);
    CHECK(broker.start_what_fits(at(1)).size() == 2);
    end_well(broker, array + 1);
    CHECK(broker.start_what_fits(at(1)).empty());
    CHECK(broker.job(after)->state == JobState::kWaiting);
    broker.end(array + 2, well ? JobState::kDone : JobState::kFailed, {}, "", at(2));
    CHECK(broker.start_what_fits(at(3)).size() == (well ? 1 : 0));
    CHECK(broker.job(after)->state == (well ? JobState::kRunning : JobState::kCancelled));
    Job late = wants(1);
    late.after = {array};
    CHECK(broker.submit(late, at(4)).has_value() == well);
    late.uid = 2;
    CHECK(broker.submit(late, at(4)).error().id == "E0902");
  }
}

TEST_CASE("an array is restored from the journal") {
  Broker before = on(gpus(8));
  const JobId array = submit_array(before, wants(1), "1-6%2");
  CHECK(before.start_what_fits(at(1)).size() == 2);
  end_well(before, array + 1);
  CHECK(before.start_what_fits(at(1)).size() == 1);
  Broker after = on(gpus(8));
  for (const bool runs : {true, false})
    for (const auto& [id, job] : before.jobs())
      if ((job.state == JobState::kRunning) == runs) after.restore(job, at(2));
  CHECK(after.start_what_fits(at(2)).empty());
  CHECK(count(after, array, JobState::kRunning) == 2);
  end_well(after, array + 2);
  CHECK(after.start_what_fits(at(3)) == std::vector{array + 4});
  CHECK(after.next_id() == before.next_id());
}

TEST_CASE("an array is forgotten with its last job") {
  Broker broker = on(gpus(2));
  const JobId array = submit_array(broker, wants(1), "1-2");
  CHECK(broker.start_what_fits(at(1)).size() == 2);
  end_well(broker, array + 1);
  end_well(broker, array + 2);
  submit(broker, wants(1), 5);
  CHECK(broker.forget_ended_before(at(10).unix_milliseconds) ==
        std::vector{array + 1, array + 2, array});
  CHECK(broker.jobs_of_array(array).empty());
}

TEST_CASE("if the first job is cancelled, a chain of twenty thousand jobs is cancelled") {
  Broker broker = on(gpus(1));
  const JobId first = submit(broker, wants(1));
  JobId last = first;
  for (int i = 0; i < 20'000; ++i) {
    Job next = wants(1);
    next.after = {last};
    last = submit(broker, next);
  }
  REQUIRE(broker.cancel(first, {1}, at(1)));
  CHECK(broker.job(last)->state == JobState::kCancelled);
}

TEST_CASE("a job that has waited for a GPU as long as it allows moves to the CPU") {
  Broker broker = on(gpus(1));
  const JobId holder = submit(broker, wants(1, 2));
  Job patient = wants(1);
  patient.or_cpu_after = std::chrono::minutes(10);
  patient.queued = true;
  const JobId one = submit(broker, patient, 0);
  CHECK(broker.start_what_fits(at(1)) == std::vector{holder});
  broker.turn_to_cpu(at(599));
  CHECK(broker.start_what_fits(at(599)).empty());
  broker.turn_to_cpu(at(600));
  CHECK(broker.start_what_fits(at(600)) == std::vector{one});
  CHECK(broker.job(one)->grants.empty());
  CHECK(broker.job(one)->request.gpus == 0);
}

TEST_CASE("a requeued job's wait for a GPU counts from the time of its requeue") {
  Broker broker = on(gpus(1));
  Job job = wants(1);
  job.id = 7;
  job.or_cpu_after = std::chrono::minutes(10);
  job.requeue = job.queued = true;
  job.submitted_unix_milliseconds = at(0).unix_milliseconds;
  job.requeued_unix_milliseconds = at(5000).unix_milliseconds;
  broker.restore(job, at(5000));
  broker.turn_to_cpu(at(5599));
  CHECK_FALSE(broker.job(7)->request.gpus == 0);
  broker.turn_to_cpu(at(5600));
  CHECK(broker.job(7)->request.gpus == 0);
}

TEST_CASE("without a GPU in the machine, a job that accepts the CPU gets it at once") {
  Broker broker = on(gpus(0));
  Job patient = wants(1);
  CHECK_FALSE(broker.submit(patient, at(0)));
  patient.or_cpu_after = std::chrono::minutes(10);
  const JobId one = submit(broker, patient);
  CHECK(broker.start_what_fits(at(0)) == std::vector{one});
}

TEST_CASE("each queued CPU job takes one core") {
  Broker broker = on(gpus(1));
  Job job = wants(0);
  job.queued = true;
  for (int i = 0; i < 40; ++i) submit(broker, job);
  const auto started = broker.start_what_fits(at(1));
  CHECK(started.size() == 16);
  CHECK(broker.job(started.front())->cpus.empty());
  end_well(broker, started.front());
  CHECK(broker.start_what_fits(at(2)).size() == 1);
}
