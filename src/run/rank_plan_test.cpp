#include "run/rank_plan.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

using namespace berth;
using run::plan_ranks;
using run::RankWish;

namespace {

model::Snapshot machine() {
  model::Snapshot snapshot;
  for (int i = 0; i < 4; ++i) {
    model::Device device;
    device.index = i;
    device.kind = model::DeviceKind::kGpu;
    device.vendor = model::Vendor::kNvidia;
    device.local_cpus = i < 2 ? "4-7" : "0-3";
    snapshot.devices.push_back(device);
  }
  return snapshot;
}

model::Environment variables(const char* devices, int threads) {
  model::Environment environment;
  using Action = model::Setting::Action;
  environment.threads = threads;
  environment.cpus = "0-7";
  environment.settings = {{Action::kSet, "CUDA_VISIBLE_DEVICES", devices, ""},
                          {Action::kSet, "OMP_NUM_THREADS", std::to_string(threads), ""},
                          {Action::kSet, "MKL_NUM_THREADS", std::to_string(threads), ""}};
  return environment;
}

model::Placement on(std::vector<int> devices) {
  model::Placement placement;
  placement.devices = std::move(devices);
  return placement;
}

}  // namespace

TEST_CASE("more ranks than devices share them only with --oversubscribe, and see their own") {
  RankWish wish;
  wish.count = 3;
  const auto refused = plan_ranks(wish, on({2, 3}), machine(), variables("2,3", 6));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().hint.find("--gpus 2 --oversubscribe") != std::string::npos);
  wish.oversubscribe = true;
  const auto ranks = plan_ranks(wish, on({2, 3}), machine(), variables("2,3", 6));
  REQUIRE(ranks);
  REQUIRE(ranks->size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& rank = (*ranks)[i];
    const int device = i == 1 ? 3 : 2;
    CHECK(rank.devices == std::vector<int>{device});
    CHECK(rank.variables.at("CUDA_VISIBLE_DEVICES") == std::to_string(device));
    CHECK(rank.variables.at("JAX_LOCAL_DEVICE_IDS") == "0");
    CHECK(rank.variables.at("LOCAL_RANK") == std::to_string(i));
    CHECK(rank.variables.at("WORLD_SIZE") == "3");
    CHECK(rank.threads == 2);
  }
  // If there are enough devices, `oversubscribe` changes nothing.
  const auto enough = plan_ranks(wish, on({0, 1, 2}), machine(), variables("0,1,2", 6));
  REQUIRE(enough);
  CHECK(enough->front().variables.count("CUDA_VISIBLE_DEVICES") == 0);
}

TEST_CASE("on the CPU, auto is one rank for each core, and gpu is refused") {
  RankWish wish;
  wish.count = 0;
  CHECK_FALSE(plan_ranks(wish, on({}), {}, variables("-1", 2)));
  wish.or_cores = true;
  const auto cores = plan_ranks(wish, on({}), {}, variables("-1", 2));
  REQUIRE(cores);
  CHECK(cores->size() == 8);
  const auto gpus = plan_ranks(wish, on({0, 1}), machine(), variables("0,1", 8));
  REQUIRE(gpus);
  CHECK(gpus->size() == 2);
}

TEST_CASE("ranks on the CPU have torchrun's variables and a part of the threads") {
  const auto ranks = plan_ranks({2, std::nullopt, false}, on({}), {}, variables("-1", 8));
  REQUIRE(ranks);
  REQUIRE(ranks->size() == 2);
  const auto& second = (*ranks)[1].variables;
  CHECK(second.at("RANK") == "1");
  CHECK(second.at("LOCAL_RANK") == "1");
  CHECK(second.at("WORLD_SIZE") == "2");
  CHECK(second.at("LOCAL_WORLD_SIZE") == "2");
  CHECK(second.at("GROUP_RANK") == "0");
  CHECK(second.at("NODE_RANK") == "0");
  CHECK(second.at("OMP_NUM_THREADS") == "4");
  CHECK(second.at("MKL_NUM_THREADS") == "4");
  CHECK((*ranks)[1].cpus.empty());
  CHECK_FALSE(second.contains("CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("with a device each every rank sees all, and LOCAL_RANK is the index of its own") {
  const auto ranks =
      plan_ranks({0, std::nullopt, false}, on({0, 1, 2, 3}), machine(), variables("0,1,2,3", 8));
  REQUIRE(ranks);
  REQUIRE(ranks->size() == 4);
  CHECK((*ranks)[3].devices == std::vector<int>{3});
  CHECK_FALSE((*ranks)[3].variables.contains("CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("JAX gets the devices of its own rank") {
  const auto one =
      plan_ranks({0, std::nullopt, false}, on({0, 1, 2, 3}), machine(), variables("0,1,2,3", 8));
  REQUIRE(one);
  CHECK((*one)[3].variables.at("JAX_LOCAL_DEVICE_IDS") == "3");
  const auto two = plan_ranks({0, 2, false}, on({0, 1, 2, 3}), machine(), variables("0,1,2,3", 8));
  REQUIRE(two);
  CHECK((*two)[1].variables.at("JAX_LOCAL_DEVICE_IDS") == "0,1");
  const auto none = plan_ranks({2, std::nullopt, false}, on({}), {}, variables("-1", 8));
  REQUIRE(none);
  CHECK_FALSE((*none)[0].variables.contains("JAX_LOCAL_DEVICE_IDS"));
}

TEST_CASE("on the second of three nodes, ranks continue the numbering") {
  const auto ranks = plan_ranks({2, std::nullopt, false, 1, 3}, on({}), {}, variables("-1", 8));
  REQUIRE(ranks);
  const auto& second = (*ranks)[1].variables;
  CHECK(second.at("RANK") == "3");
  CHECK(second.at("LOCAL_RANK") == "1");
  CHECK(second.at("WORLD_SIZE") == "6");
  CHECK(second.at("LOCAL_WORLD_SIZE") == "2");
  CHECK(second.at("GROUP_RANK") == "1");
  CHECK(second.at("GROUP_WORLD_SIZE") == "3");
}

TEST_CASE("PyTorch, JAX and TensorFlow are told where the ranks meet") {
  std::map<std::string, std::string> own;
  run::add_meeting({"127.0.0.1", 4000, 4001, {"127.0.0.1:5000", "127.0.0.1:5001"}}, 1, 2, own);
  CHECK(own.at("MASTER_ADDR") == "127.0.0.1");
  CHECK(own.at("MASTER_PORT") == "4000");
  CHECK(own.at("JAX_COORDINATOR_ADDRESS") == "127.0.0.1:4001");
  CHECK(own.at("JAX_NUM_PROCESSES") == "2");
  CHECK(own.at("JAX_PROCESS_ID") == "1");
  CHECK(own.at("TF_CONFIG") == R"({"cluster":{"worker":["127.0.0.1:5000","127.0.0.1:5001"]},)"
                               R"("task":{"type":"worker","index":1}})");
  CHECK(own.at("MASTER_PORT") == "4000");
  run::Meeting relayed{"127.0.0.1", 4000, 0, {}};
  relayed.relay_port = 4100;
  std::map<std::string, std::string> first;
  std::map<std::string, std::string> other;
  run::add_meeting(relayed, 0, 2, first);
  run::add_meeting(relayed, 1, 2, other);
  CHECK(first.at("MASTER_PORT") == "4000");
  CHECK(other.at("MASTER_PORT") == "4100");
  std::map<std::string, std::string> less;
  run::add_meeting({"127.0.0.1", 4000, 0, {}}, 1, 2, less);
  CHECK(less.size() == 2);
}

TEST_CASE("with several devices each a rank sees its own") {
  const auto ranks =
      plan_ranks({0, 2, false}, on({0, 1, 2, 3}), machine(), variables("0,1,2,3", 8));
  REQUIRE(ranks);
  REQUIRE(ranks->size() == 2);
  CHECK((*ranks)[1].devices == std::vector<int>{2, 3});
  CHECK((*ranks)[1].variables.at("CUDA_VISIBLE_DEVICES") == "2,3");
}

TEST_CASE("devices that cannot be divided are an error") {
  for (const auto& wish : {RankWish{3, std::nullopt, false}, RankWish{8, std::nullopt, false},
                           RankWish{2, 1, false}, RankWish{0, 3, false}}) {
    const auto ranks = plan_ranks(wish, on({0, 1, 2, 3}), machine(), variables("0,1,2,3", 8));
    REQUIRE_FALSE(ranks);
    CHECK(ranks.error().id == "E0530");
  }
  CHECK_FALSE(plan_ranks({0, std::nullopt, false}, on({}), {}, variables("-1", 8)));
}

TEST_CASE("cores of its own are divided, those near its device first") {
  const auto ranks =
      plan_ranks({4, std::nullopt, true}, on({0, 1, 2, 3}), machine(), variables("0,1,2,3", 8));
  REQUIRE(ranks);
  CHECK((*ranks)[0].cpus == std::vector<int>{4, 5});
  CHECK((*ranks)[1].cpus == std::vector<int>{6, 7});
  CHECK((*ranks)[2].cpus == std::vector<int>{0, 1});
  CHECK((*ranks)[3].cpus == std::vector<int>{2, 3});
  const auto many = plan_ranks({9, std::nullopt, true}, on({}), {}, variables("-1", 8));
  REQUIRE(many);
  CHECK((*many)[0].cpus.empty());
  CHECK((*many)[0].threads == 1);
}

TEST_CASE("thread counts set by the user are kept") {
  model::Environment environment = variables("-1", 6);
  environment.settings[1].action = model::Setting::Action::kKeep;
  const auto ranks = plan_ranks({2, std::nullopt, false}, on({}), {}, environment);
  REQUIRE(ranks);
  CHECK((*ranks)[0].threads == 6);
  CHECK_FALSE((*ranks)[0].variables.contains("OMP_NUM_THREADS"));
}

TEST_CASE("with two numbers there are as many ranks as the devices allow") {
  RankWish wish{4, std::nullopt, false};
  wish.least = 2;
  const auto three = plan_ranks(wish, on({0, 2, 3}), machine(), variables("0,2,3", 8));
  REQUIRE(three);
  CHECK(three->size() == 3);
  CHECK((*three)[2].variables.at("WORLD_SIZE") == "3");
  CHECK_FALSE(plan_ranks(wish, on({0}), machine(), variables("0", 8)));
  const auto on_cpu = plan_ranks(wish, on({}), machine(), variables("-1", 8));
  REQUIRE(on_cpu);
  CHECK(on_cpu->size() == 4);
}
