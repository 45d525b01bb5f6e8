#include "run/node_place.hpp"

#include <doctest/doctest.h>

using namespace berth::run;

namespace {

using Variables = std::map<std::string, std::string>;
using Names = std::vector<std::string>;

struct Case {
  const char* words;
  Variables variables;
  std::optional<int> nodes;
  std::string hosts;
  int rank, count;
  std::string address;
  std::uint16_t port;
  std::size_t peers;
};

const Variables kStep{{"SLURM_JOB_ID", "7"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "3"},
                      {"SLURM_PROCID", "2"},
                      {"SLURM_STEP_NODELIST", "n[1-2,5]"}};
const Variables kPod{{"JOB_COMPLETION_INDEX", "1"}, {"HOSTNAME", "train-1"}};
const char* const kHosts =
    "127.0.0.1\tlocalhost\n10.244.0.9\ttrain-1.peers.lab.svc.cluster.local\ttrain-1\n";

Variables with(Variables variables, const char* name, const char* value) {
  variables[name] = value;
  return variables;
}

Variables without(Variables variables, const char* name) {
  variables.erase(name);
  return variables;
}

std::vector<Case> cases() {
  return {
      {"a plain machine", {}, {}, "", 0, 1, "", 0, 0},
      {"a plain machine with a job's old MASTER_ADDR",
       {{"MASTER_ADDR", "a"}, {"NODE_RANK", "1"}},
       {},
       "",
       0,
       1,
       "",
       0,
       0},
      {"a Slurm step", kStep, {}, "", 2, 3, "n1", 12000 + 217 * 16, 3},
      {"a Slurm step, and --nodes says the same", kStep, 3, "", 2, 3, "n1", 12000 + 217 * 16, 3},
      {"a Slurm step with the user's port",
       with(kStep, "MASTER_PORT", "3000"),
       {},
       "",
       2,
       3,
       "n1",
       3000,
       3},
      {"two Slurm tasks on one node",
       with(with(kStep, "SLURM_STEP_NODELIST", "n9"), "SLURM_PROCID", "0"),
       {},
       "",
       0,
       3,
       "n9",
       12000 + 217 * 16,
       0},
      {"a Slurm step, but only for this node", kStep, 1, "", 0, 1, "", 0, 0},
      {"Slurm's batch script", without(kStep, "SLURM_STEP_ID"), {}, "", 0, 1, "", 0, 0},
      {"a Slurm step of one task",
       with(kStep, "SLURM_STEP_NUM_TASKS", "1"),
       {},
       "",
       0,
       1,
       "",
       0,
       0},
      {"a pod that says nothing of others", kPod, {}, kHosts, 0, 1, "", 0, 0},
      {"a pod of two", kPod, 2, kHosts, 1, 2, "train-0.peers.lab.svc.cluster.local", 29500, 2},
      {"a pod with an address", with(kPod, "MASTER_ADDR", "10.0.0.1"), 2, "", 1, 2, "10.0.0.1",
       29500, 0},
      {"Kubeflow",
       {{"PET_NNODES", "2"},
        {"PET_NODE_RANK", "1"},
        {"PET_MASTER_ADDR", "m"},
        {"PET_MASTER_PORT", "23456"}},
       {},
       "",
       1,
       2,
       "m",
       23456,
       0},
      {"the user's own", {{"NODE_RANK", "1"}, {"MASTER_ADDR", "a"}}, 4, "", 1, 4, "a", 29500, 0}};
}

}  // namespace

TEST_CASE("each scheduler's variables say which node this is, and where node 0 is") {
  for (const Case& one : cases()) {
    CAPTURE(one.words);
    const auto place = node_place(one.variables, one.nodes, one.hosts);
    REQUIRE(place);
    CHECK(place->rank == one.rank);
    CHECK(place->count == one.count);
    CHECK(place->address == one.address);
    CHECK(place->port == one.port);
    CHECK(place->peers.size() == one.peers);
  }
}

TEST_CASE("an unknown node is an error, never node 0") {
  struct Wrong {
    Variables variables;
    std::optional<int> nodes;
    const char* id;
  };
  const std::vector<Wrong> cases{{{}, 2, "E0534"},
                                 {{{"MASTER_ADDR", "a"}}, 2, "E0534"},
                                 {{{"NODE_RANK", "2"}, {"MASTER_ADDR", "a"}}, 2, "E0534"},
                                 {{{"NODE_RANK", "1"}}, 2, "E0534"},
                                 {kStep, 2, "E0535"},
                                 {without(kStep, "SLURM_PROCID"), {}, "E0534"},
                                 {with(kStep, "SLURM_PROCID", "3"), {}, "E0534"},
                                 {with(kStep, "SLURM_STEP_NODELIST", "n[1-"), {}, "E0534"},
                                 // the hosts file of the pod shows no headless service
                                 {kPod, 2, "E0534"},
                                 {with(kPod, "JOB_COMPLETION_INDEX", "5"), 2, "E0534"},
                                 {{{"PET_NNODES", "1:4"}, {"PET_NODE_RANK", "1"}}, {}, "E0534"}};
  for (const Wrong& one : cases) {
    const auto place = node_place(one.variables, one.nodes, "");
    REQUIRE_FALSE(place);
    CHECK(place.error().id == one.id);
    CHECK_FALSE(place.error().hint.empty());
  }
}

TEST_CASE("Slurm's lists of hosts are expanded") {
  CHECK(expand_host_list("n1") == Names{"n1"});
  CHECK(expand_host_list("n[01-03,7],login") == Names{"n01", "n02", "n03", "n7", "login"});
  CHECK(expand_host_list("a[8-10].lab") == Names{"a8.lab", "a9.lab", "a10.lab"});
  for (const char* wrong : {"", "n[", "n[1", "n]", "n[3-1]", "n[x]", "n[1-2][3-4]", "a,,b",
                            "n[0-99999]", "n[1-99999999999]"})
    CHECK_FALSE(expand_host_list(wrong));
}
