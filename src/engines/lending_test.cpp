#include "engines/lending.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace berth::engines;

namespace {

NodeState drained_for_berth(NodeUse use = NodeUse::kNone) {
  return {true, std::string(kOwnQueueMark), use};
}

}  // namespace

TEST_CASE("Slurm is opened only after Berth is closed and its jobs have ended") {
  CHECK(step_to_lend({4, 3, 0, drained_for_berth()}) == LendStep::kCloseBerth);
  CHECK(step_to_lend({4, 4, 2, drained_for_berth()}) == LendStep::kWaitForBerth);
  CHECK(step_to_lend({4, 4, 0, drained_for_berth()}) == LendStep::kOpenOther);
  CHECK(step_to_lend({4, 4, 0, {}}) == LendStep::kDone);
  CHECK_MESSAGE(step_to_lend({4, 4, 0, {true, "new fans", NodeUse::kNone}}) == LendStep::kDone,
                "a node that a person drained stays drained");
}

TEST_CASE("Berth is opened only after Slurm is closed and its jobs have ended") {
  CHECK(step_to_take_back({4, 4, 0, {}}) == LendStep::kCloseOther);
  CHECK_MESSAGE(
      step_to_take_back({4, 4, 0, {true, "new fans", NodeUse::kNone}}) == LendStep::kCloseOther,
      "else the person who resumes the node would put the GPUs into both queues");
  CHECK(step_to_take_back({4, 4, 0, drained_for_berth(NodeUse::kJobs)}) == LendStep::kWaitForOther);
  CHECK(step_to_take_back({4, 4, 0, drained_for_berth(NodeUse::kUnknown)}) ==
        LendStep::kOtherUnknown);
  CHECK(step_to_take_back({4, 4, 0, drained_for_berth()}) == LendStep::kOpenBerth);
  CHECK_MESSAGE(step_to_take_back({4, 1, 0, drained_for_berth()}) == LendStep::kOpenBerth,
                "a reclaim that was killed between two GPUs goes on");
  CHECK(step_to_take_back({4, 0, 3, drained_for_berth()}) == LendStep::kDone);
}

TEST_CASE("the reason that the node had is kept, also that of a failing GPU") {
  const std::string reason = own_queue_reason({true, "new fans", NodeUse::kNone});
  CHECK(reason == "berth: in Berth's own queue; before: new fans");
  CHECK(reason_before({true, reason, NodeUse::kNone}) == "new fans");
  CHECK_MESSAGE(own_queue_reason({true, reason, NodeUse::kNone}) == reason, "once, not twice");
  const std::string fault = own_queue_reason({true, "berth: GPU 1: lost", NodeUse::kNone});
  CHECK(reason_before({true, fault, NodeUse::kNone}) == "berth: GPU 1: lost");
  CHECK(own_queue_reason({false, "", NodeUse::kNone}) == kOwnQueueMark);
  CHECK(reason_before(drained_for_berth()).empty());
}

TEST_CASE("a random walk with crashes at every point never has a GPU in both queues") {
  std::mt19937 random(7);
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  for (int walk = 0; walk < 200; ++walk) {
    Ledgers now{4, 4, 0, {}};
    for (int turn = 0; turn < 60; ++turn) {
      const bool lend = one_in(2);
      // Each command may be killed before any step, and between two GPUs. The next command may lend
      // or reclaim.
      const bool to_the_end = one_in(4);
      for (int step = 0; step < 40 && (to_the_end || !one_in(6)); ++step) {
        switch (lend ? step_to_lend(now) : step_to_take_back(now)) {
          case LendStep::kCloseBerth:
            ++now.lent;
            break;
          case LendStep::kOpenBerth:
            --now.lent;
            break;
          case LendStep::kCloseOther: {
            const std::string reason = own_queue_reason(now.node);
            now.node = {true, reason, now.node.use};
            break;
          }
          case LendStep::kOpenOther: {
            const std::string before = reason_before(now.node);
            now.node = {!before.empty(), before, now.node.use};
            break;
          }
          case LendStep::kWaitForBerth:
            now.leases = 0;
            break;
          case LendStep::kWaitForOther:
            now.node.use = NodeUse::kNone;
            break;
          case LendStep::kDone:
          case LendStep::kOtherUnknown:
            break;
        }
        const bool berth_gives = now.lent < now.gpus, slurm_gives = !now.node.drained;
        REQUIRE_FALSE((berth_gives && slurm_gives));
        REQUIRE_FALSE((berth_gives && now.node.use != NodeUse::kNone));
        REQUIRE_FALSE((slurm_gives && now.leases > 0));
        if (to_the_end) continue;
        // A queue that is open may start a job.
        if (berth_gives && one_in(3)) now.leases = 1;
        if (slurm_gives && one_in(3)) now.node.use = NodeUse::kJobs;
      }
      if (!to_the_end) continue;
      REQUIRE_MESSAGE(now.lent == (lend ? now.gpus : 0), "after any crash, it comes to its end");
      REQUIRE(now.node.drained == !lend);
    }
  }
}
