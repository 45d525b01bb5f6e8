#include "engines/slurm_config.hpp"

#include <doctest/doctest.h>

#include "system/temporary_tree.hpp"

using namespace berth;
using engines::expand_names;
using system::TemporaryTree;

TEST_CASE("names in brackets are expanded as Slurm expands them") {
  CHECK(expand_names("n[1-3,07],m1") == std::vector<std::string>{"n1", "n2", "n3", "n07", "m1"});
  CHECK(expand_names("/dev/nvidia[0-1],/dev/nvidia5") ==
        std::vector<std::string>{"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia5"});
  CHECK(expand_names("n[001-003]-gpu") ==
        std::vector<std::string>{"n001-gpu", "n002-gpu", "n003-gpu"});
  CHECK(expand_names("").empty());
  CHECK(expand_names("n[x-3]").empty());
  CHECK(expand_names("n[1-99999999]").size() <= 65'536);
}

TEST_CASE("a configuration is read with its defaults, includes and continued lines") {
  const TemporaryTree tree;
  tree.put("slurm.conf",
           "ClusterName=lab # the lab\nGresTypes=gpu\nInclude nodes.conf\n"
           "TaskPlugin=task/cgroup,\\\n task/affinity\n");
  tree.put("nodes.conf",
           "NodeName=DEFAULT RealMemory=1000\nNodeName=n[1-2] NodeHostname=big,small "
           "Gres=gpu:a100:2\nPartitionName=all Nodes=n[1-2]\n");
  tree.put("gres.conf", "NodeName=n1 Name=GPU Type=A100 File=/dev/nvidia[0-1] Cores=0-3\n");
  const auto config = engines::read_slurm_config(tree.path);
  REQUIRE(config);
  CHECK(config->setting("grestypes") == "gpu");
  REQUIRE(config->nodes.size() == 2);
  const auto* small = config->node("small.example.org");
  REQUIRE(small != nullptr);
  CHECK(small->name == "n2");
  CHECK(small->words.at("realmemory") == "1000");
  REQUIRE(config->gres);
  CHECK(config->gres->front().type == "a100");
  CHECK(config->gres->front().files.size() == 2);
  CHECK_FALSE(config->cgroup);
  CHECK(config->node("other") == nullptr);
}

TEST_CASE("a folder without slurm.conf is an error") {
  const TemporaryTree tree;
  const auto config = engines::read_slurm_config(tree.path);
  REQUIRE_FALSE(config);
  CHECK(config.error().id == "E1001");
  CHECK(config.error().hint.starts_with("scontrol show config"));
}
