#include "engines/slurm_node.hpp"

#include <doctest/doctest.h>

#include "engines/machines_for_tests.hpp"

using namespace berth;
using namespace berth::engines;
using Numbers = std::vector<int>;

TEST_CASE("numbers of GPUs come from Slurm alone, and nothing else passes") {
  CHECK(job_gpus("0-1,3") == Numbers{0, 1, 3});
  for (const char* other : {"", "x", "1;reboot", "-1", "GPU-1", "1 2"})
    CHECK_FALSE(job_gpus(other));
  CHECK_FALSE(job_gpus(std::string(5000, '1')));
  SlurmConfig config;
  config.gres = parse_gres(
      "NodeName=n1 Name=gpu File=/dev/nvidia[0-1]\nNodeName=n2 Name=gpu File=/dev/nvidia7\n"
      "Name=shard Count=4 File=/dev/nvidia0\nName=gpu MultipleFiles=/dev/nvidia2,/dev/nvidia-caps/"
      "nvidia-cap21\n");
  CHECK(configured_gpus(config, "n1") == Numbers{0, 1, 2});
  CHECK(configured_gpus({}, "n1").empty());
}

TEST_CASE("the reason names each GPU that is unfit, by Slurm's number") {
  auto seen = machine_of(3);
  CHECK(unfit_reason(seen, {0, 1, 2}).empty());
  CHECK(unfit_reason(seen, {0, 7}) == "berth: GPU 7: missing");
  seen.devices[1].health = model::Health::kLost;
  CHECK(unfit_reason(seen, {0, 1, 7}).starts_with("berth: GPU 1: "));
  CHECK(unfit_reason(seen, {0, 2}).empty());
  Numbers many(1000, 9);
  CHECK(unfit_reason(seen, many).size() <= 200);
}

TEST_CASE("what Slurm says about a node is read from its own line") {
  const auto idle = node_state("NodeName=n1 Arch=x86_64 State=IDLE ThreadsPerCore=1");
  REQUIRE(idle);
  CHECK_FALSE(idle->drained);
  const auto ours = node_state(
      "NodeName=n1 NextState=X State=IDLE+DRAIN Weight=1 Reason=berth: GPU 1: lost "
      "[root@2026-11-24T04:00:00]\n");
  REQUIRE(ours);
  CHECK(ours->drained);
  CHECK(ours->reason == "berth: GPU 1: lost");
  CHECK(ours->use == NodeUse::kNone);
  const auto use = [](const std::string& state) { return node_state(" State=" + state)->use; };
  for (const char* jobs : {"MIXED+DRAIN", "ALLOCATED", "IDLE+COMPLETING+DRAIN"})
    CHECK(use(jobs) == NodeUse::kJobs);
  for (const char* unknown : {"DOWN+DRAIN", "IDLE*+DRAIN", "DOWN*", "IDLE+DRAIN+NOT_RESPONDING"})
    CHECK(use(unknown) == NodeUse::kUnknown);
  CHECK_FALSE(node_state("slurm_load_node error: Unable to contact slurm controller"));
}

TEST_CASE("only what Berth drained is resumed, and nothing is done twice") {
  const NodeState idle{}, ours{true, "berth: GPU 1: lost"}, others{true, "new fans"};
  CHECK(action_for("berth: GPU 1: lost", idle) == NodeAction::kDrain);
  CHECK(action_for("berth: GPU 1: lost", ours) == NodeAction::kNone);
  CHECK(action_for("berth: GPU 1: lost", others) == NodeAction::kNone);
  CHECK(action_for("", ours) == NodeAction::kResume);
  CHECK(action_for("", others) == NodeAction::kNone);
  CHECK_MESSAGE(
      action_for("", {true, "berth: in Berth's own queue", NodeUse::kNone}) == NodeAction::kNone,
      "healthy GPUs are not given to two queues");
  CHECK(action_for("", idle) == NodeAction::kNone);
}
