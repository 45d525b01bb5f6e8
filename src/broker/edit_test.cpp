#include <doctest/doctest.h>

#include "broker/broker.hpp"
#include "broker/job_record.hpp"
#include "broker/machines_for_tests.hpp"

using namespace berth::broker::for_tests;  // NOLINT(google-build-using-namespace)
using berth::broker::Broker;
using berth::broker::Caller;
using berth::broker::Changes;
using berth::broker::Job;
using berth::broker::JobId;
using berth::broker::JobState;
using std::chrono::seconds;

namespace {
const Caller kUser{1, false, "u1"};
}  // namespace

TEST_CASE("a job after the end of another starts, however the other ended") {
  for (const JobState how : {JobState::kDone, JobState::kFailed}) {
    Broker broker = on(gpus(4));
    const JobId first = submit(broker, wants(1));
    Job any = wants(1);
    any.after_any = {first};
    Job not_ok = wants(1);
    not_ok.after_not_ok = {first};
    const JobId always = submit(broker, any);
    const JobId clean_up = submit(broker, not_ok);
    REQUIRE(broker.start_what_fits(at(1)).size() == 1);
    broker.end(first, how, {}, "", at(2));
    const auto started = broker.start_what_fits(at(2));
    CHECK(broker.job(always)->state == JobState::kRunning);
    CHECK(broker.job(clean_up)->state ==
          (how == JobState::kDone ? JobState::kCancelled : JobState::kRunning));
    CHECK(broker.job(clean_up)->why.empty() == (how == JobState::kFailed));
    CHECK(broker.submit(any, at(3)));
    CHECK(broker.submit(not_ok, at(3)).has_value() == (how == JobState::kFailed));
  }
}

TEST_CASE("a running job gets more of its device if that is free, and gives back the rest") {
  Broker broker = on(gpus(1));
  const std::uint64_t all = *broker.snapshot().devices[0].readings.memory_total_bytes;
  const auto part = [](std::uint64_t bytes) {
    Job job = wants(1);
    job.request.gpus.reset();
    job.request.memory_bytes = bytes;
    return job;
  };
  const JobId a = submit(broker, part(all / 4));
  const JobId b = submit(broker, part(all / 2));
  REQUIRE(broker.start_what_fits(at(0)).size() == 2);
  const JobId waits = submit(broker, part(all / 2));
  CHECK(broker.start_what_fits(at(1)).empty());
  Changes changes;
  changes.memory_bytes = all / 2 + kGiB;
  const auto refused = broker.edit(a, changes, kUser, at(1));
  REQUIRE(!refused);
  CHECK(refused.error().id == "E0521");
  CHECK(refused.error().message.find(" can have at most ") != std::string::npos);
  changes.memory_bytes = 12ULL << 40U;
  const auto impossible = broker.edit(a, changes, kUser, at(1));
  REQUIRE(!impossible);
  CHECK(impossible.error().message.find(" cannot have 12.0 TiB: its device has ") !=
        std::string::npos);
  CHECK(impossible.error().hint == "berth resize " + std::to_string(a) + " --memory " +
                                       std::to_string((all / 2) >> 20U) + "MiB");
  changes.memory_bytes = all / 2 + kGiB;
  CHECK_FALSE(broker.edit(a, changes, Caller{2, false, "u2"}, at(1)));
  CHECK(broker.job(a)->grants.at(0).memory_bytes == all / 4);
  changes.memory_bytes = all / 2;
  REQUIRE(broker.edit(a, changes, kUser, at(1)));
  CHECK(broker.job(a)->grants.at(0).memory_bytes == all / 2);
  CHECK(broker.ledger().holdings.at(0).memory_bytes == all / 2);
  Changes share;
  share.share_permille = 500;
  CHECK_FALSE(broker.edit(a, share, kUser, at(1)));  // job `a` was started without a share
  broker.end(b, JobState::kDone, {}, "", at(2));
  CHECK(broker.start_what_fits(at(2)) == std::vector{waits});
  const JobId late = submit(broker, part(all / 4));
  CHECK(broker.start_what_fits(at(3)).empty());
  changes.memory_bytes = all / 4;
  REQUIRE(broker.edit(a, changes, kUser, at(4)));
  CHECK(broker.start_what_fits(at(4)) == std::vector{late});
}

TEST_CASE("a running job's share grows up to its cap") {
  Broker broker = on(gpus(1));
  Job capped = wants(1);
  capped.request.memory_bytes = 4 * kGiB;
  capped.request.share_permille = 200;
  capped.request.turns.cap_permille = 300;
  const JobId id = submit(broker, capped);
  REQUIRE(broker.start_what_fits(at(0)) == std::vector{id});
  Changes more;
  more.share_permille = 400;
  CHECK_FALSE(broker.edit(id, more, kUser, at(1)));
  more.share_permille = 300;
  CHECK(broker.edit(id, more, kUser, at(1)));
}

TEST_CASE("a submission whose turns make no sense is refused") {
  const auto accepted = [](const std::string& turns) {
    return bool(berth::broker::submission_of(R"({"request":{"memory_bytes":1,)" + turns + "}}"));
  };
  CHECK(accepted(R"("share_permille":200,"cap_permille":300,"latency":true)"));
  CHECK(accepted(R"("slice_milliseconds":86400000,"keeps_turn":true)"));
  for (const char* turns :
       {R"("cap_permille":0)", R"("cap_permille":1001)", R"("slice_milliseconds":0)",
        R"("share_permille":400,"cap_permille":300)", R"("slice_milliseconds":86400001)",
        R"("slice_milliseconds":-5)", R"("latency":true,"best_effort":true)"}) {
    INFO(turns);
    CHECK_FALSE(accepted(turns));
  }
}

TEST_CASE("a waiting job moves to the front, and two jobs swap places") {
  Broker broker = on(gpus(1));
  const JobId running = submit(broker, wants(1));
  REQUIRE(broker.start_what_fits(at(0)).size() == 1);
  const JobId a = submit(broker, wants(1));
  const JobId b = submit(broker, wants(1));
  const JobId c = submit(broker, wants(1));
  Changes first;
  first.first = true;
  REQUIRE(broker.edit(c, first, kUser, at(1)));
  Changes swap;
  swap.swap = b;
  REQUIRE(broker.edit(a, swap, kUser, at(1)));
  JobId before = running;
  for (const JobId next : {c, b, a}) {
    broker.end(before, JobState::kDone, {}, "", at(2));
    CHECK(broker.start_what_fits(at(2)) == std::vector{next});
    before = next;
  }
}

TEST_CASE("a restarted broker keeps the places of two swapped jobs") {
  Broker broker = on(gpus(1));
  const JobId running = submit(broker, wants(1));
  REQUIRE(broker.start_what_fits(at(0)).size() == 1);
  const JobId a = submit(broker, wants(1));
  const JobId b = submit(broker, wants(1));
  Changes swap;
  swap.swap = b;
  REQUIRE(broker.edit(a, swap, kUser, at(1)));
  Broker next = on(gpus(1));
  for (const JobId id : {running, a, b}) next.restore(*broker.job(id), at(2));
  next.end(running, JobState::kDone, {}, "", at(3));
  CHECK(next.start_what_fits(at(3)) == std::vector{b});
}

TEST_CASE("a waiting job's request can be changed, but not to more than the machine has") {
  Broker broker = on(gpus(2));
  const JobId one = submit(broker, wants(1));
  REQUIRE(broker.start_what_fits(at(0)).size() == 1);
  const JobId two = submit(broker, wants(2));
  CHECK(broker.start_what_fits(at(1)).empty());
  Changes fewer;
  fewer.gpus = 1;
  CHECK(broker.edit(two, fewer, {2, false, "u2"}, at(1)).error().id == "E0902");
  REQUIRE(broker.edit(two, fewer, kUser, at(1)));
  CHECK(broker.start_what_fits(at(1)) == std::vector{two});
  const JobId three = submit(broker, wants(1));
  Changes many;
  many.gpus = 9;
  CHECK_FALSE(broker.edit(three, many, kUser, at(1)));
  CHECK(broker.job(three)->request.gpus == 1);
  Changes after;
  after.after = {{one}};
  REQUIRE(broker.edit(three, after, kUser, at(1)));
  after.after = {{three}};
  CHECK(broker.edit(two, after, kUser, at(1)).error().id == "E0903");
  const JobId four = submit(broker, wants(1));
  after.after = {{four}};
  CHECK(broker.edit(three, after, kUser, at(1)).error().id == "E0948");
  broker.end(two, JobState::kDone, {}, "", at(2));
  CHECK(broker.start_what_fits(at(2)) == std::vector{four});
  broker.end(one, JobState::kDone, {}, "", at(3));
  CHECK(broker.start_what_fits(at(3)) == std::vector{three});
}

TEST_CASE("a user can shorten a running job's time limit, only an administrator can extend it") {
  Broker broker = on(gpus(1));
  Job limited = wants(1);
  limited.time_limit = seconds(100);
  const JobId one = submit(broker, limited);
  REQUIRE(broker.start_what_fits(at(0)).size() == 1);
  Changes limit;
  limit.time_limit = seconds(50);
  REQUIRE(broker.edit(one, limit, kUser, at(1)));
  CHECK(broker.queue().running(one)->time_limit == seconds(50));
  limit.time_limit = seconds(0);
  CHECK(broker.edit(one, limit, kUser, at(1)).error().id == "E0949");
  REQUIRE(broker.edit(one, limit, {0, true, "root"}, at(1)));
  CHECK_FALSE(broker.job(one)->time_limit);
  Changes gpus;
  gpus.gpus = 1;
  CHECK(broker.edit(one, gpus, kUser, at(1)).error().id == "E0903");
}

TEST_CASE("the user who cancelled a job is recorded") {
  Broker broker = on(gpus(1));
  const JobId one = submit(broker, wants(1));
  const JobId two = submit(broker, wants(1));
  REQUIRE(broker.start_what_fits(at(0)).size() == 1);
  REQUIRE(broker.cancel(two, {0, true, "root"}, at(1)));
  CHECK(broker.job(two)->ended_by == "root");
  broker.tell_to_end(one, {JobState::kCancelled, "", "lin"});
  broker.end(one, JobState::kCancelled, {}, "", at(2));
  CHECK(broker.job(one)->ended_by == "lin");
}
