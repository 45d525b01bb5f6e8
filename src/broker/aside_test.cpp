// Tests the devices that are set aside because a process of an ended job cannot be killed.
#include <doctest/doctest.h>

#include "broker/broker.hpp"
#include "broker/machines_for_tests.hpp"

using namespace berth::broker::for_tests;  // NOLINT(google-build-using-namespace)
using berth::broker::Broker;
using berth::broker::JobId;
using berth::broker::JobState;
using berth::model::ProcessId;

TEST_CASE("a device with a process that cannot be killed is given to nobody until it is gone") {
  Broker broker = on(gpus(2));
  const JobId one = submit(broker, wants(2));
  REQUIRE(broker.start_what_fits(at(1)).size() == 1);
  broker.set_aside(one, {ProcessId{4711, 99}});
  broker.end(one, JobState::kCancelled, {}, "", at(2));
  CHECK(broker.job(one)->stuck == std::vector{ProcessId{4711, 99}});
  REQUIRE(broker.aside().size() == 2);
  CHECK(broker.closed().aside.size() == 2);
  const JobId two = submit(broker, wants(1, 2), 2);
  CHECK(broker.start_what_fits(at(3)).empty());
  // The units stay aside after a new snapshot, and also after a restart of the broker.
  broker.see(gpus(2), {});
  CHECK(broker.start_what_fits(at(4)).empty());
  Broker restarted = on(gpus(2));
  restarted.restore_aside(broker.aside());
  restarted.restore(*broker.job(one), at(5));
  restarted.restore(*broker.job(two), at(5));
  CHECK(restarted.start_what_fits(at(5)).empty());

  CHECK_FALSE(restarted.end_aside([](const ProcessId& process) { return process.pid == 4711; }));
  CHECK(restarted.end_aside([](const ProcessId&) { return false; }));
  CHECK(restarted.aside().empty());
  CHECK(restarted.start_what_fits(at(6)) == std::vector{two});
}

TEST_CASE("a device that is set aside and drained stays drained when the process is gone") {
  Broker broker = on(gpus(1));
  const JobId one = submit(broker, wants(1));
  REQUIRE(broker.start_what_fits(at(1)).size() == 1);
  REQUIRE(broker.drain("GPU-0", true));
  broker.set_aside(one, {ProcessId{4711, 99}});
  broker.end(one, JobState::kFailed, {}, "", at(2));
  const JobId two = submit(broker, wants(1), 3);
  REQUIRE(broker.end_aside([](const ProcessId&) { return false; }));
  CHECK(broker.start_what_fits(at(4)).empty());
  REQUIRE(broker.drain("GPU-0", false));
  CHECK(broker.start_what_fits(at(5)) == std::vector{two});
}
