#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>

#include "broker/broker.hpp"
#include "broker/machines_for_tests.hpp"

using namespace berth::broker::for_tests;  // NOLINT(google-build-using-namespace)
using berth::broker::Broker;
using berth::broker::Job;
using berth::broker::JobId;
using berth::broker::JobState;

namespace {

void nothing_is_given_twice(const Broker& broker, const std::set<JobId>& running) {
  std::map<std::string, std::uint64_t> promised;
  std::map<std::string, int> alone, holders;
  std::set<int> cpus;
  std::size_t cores = 0;
  for (const JobId one : running) {
    for (const auto& grant : broker.job(one)->grants) {
      promised[grant.unit] += grant.memory_bytes;
      ++holders[grant.unit];
      if (grant.memory_bytes == 0) ++alone[grant.unit];
    }
    cpus.insert(broker.job(one)->cpus.begin(), broker.job(one)->cpus.end());
    cores += broker.job(one)->cpus.size();
  }
  REQUIRE(cpus.size() == cores);
  for (const auto& [id_of_unit, count] : holders) {
    REQUIRE((alone[id_of_unit] == 0 || count == 1));
    REQUIRE(promised[id_of_unit] <= 32 * kGiB);
  }
}

}  // namespace

TEST_CASE(
    "10 000 random jobs: no device is leased twice, memory is never exceeded, all is returned") {
  std::mt19937 random(3);
  Broker broker = on(gpus(8, 32));
  std::set<JobId> running;
  for (int i = 0; i < 10'000; ++i) {
    Job job = wants(static_cast<int>(random() % 4), random() % 16);
    if (random() % 2 == 0) {
      job.request.gpus.reset();
      job.request.memory_bytes = (1 + random() % 32) * kGiB;
    }
    if (random() % 3 == 0) job.request.cpus = 1 + static_cast<int>(random() % 4);
    const JobId id = submit(broker, job, i);
    if (random() % 20 == 0) static_cast<void>(broker.cancel(id, {job.uid, false}, at(i)));
    while (!running.empty() && random() % 2 == 0) {
      const JobId ends = *std::next(running.begin(), static_cast<long>(random() % running.size()));
      broker.end(ends, JobState::kDone, {}, "", at(i));
      running.erase(ends);
    }
    for (const JobId started : broker.start_what_fits(at(i))) running.insert(started);
    nothing_is_given_twice(broker, running);
  }
  while (broker.queue().waiting_count() + broker.queue().running_count() > 0) {
    for (const JobId one : running) broker.end(one, JobState::kDone, {}, "", at(20'000));
    running.clear();
    for (const JobId started : broker.start_what_fits(at(20'000))) running.insert(started);
    REQUIRE((!running.empty() || broker.queue().waiting_count() == 0));
  }
  CHECK(broker.ledger().holdings.empty());
  CHECK(broker.ledger().cpus.empty());
  CHECK(broker.forget_ended_before(at(30'000).unix_milliseconds).size() == 9'999);
  CHECK(broker.jobs().size() == 1);
}
