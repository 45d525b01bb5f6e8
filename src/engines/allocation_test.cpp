#include "engines/allocation.hpp"

#include <doctest/doctest.h>

#include "engines/machines_for_tests.hpp"
#include "policy/visible.hpp"

using namespace berth;
using namespace berth::engines;

namespace {

/// What `berth run` uses in a Slurm job with these variables: devices, "cpu", or the error's id.
std::string taken(Variables variables, model::Request request = {}) {
  variables.emplace("SLURM_JOB_ID", "7");
  policy::inherit_visibility(request, variables);
  const auto job = slurm_job(variables);
  REQUIRE(job);
  const auto inside = within(allocation_of(*job, variables, request, machine_of(4)), request);
  if (!inside) return inside.error().id;
  if (inside->gpus == 0) return "cpu";
  std::string out;
  for (const std::string& one : inside->devices) out += (out.empty() ? "" : ",") + one;
  return out.empty() ? "as asked" : out;
}

model::Request gpus(int n) {
  model::Request request;
  request.gpus = n;
  return request;
}

model::Request memory() {
  model::Request request;
  request.memory_bytes = 1 << 30;
  return request;
}

}  // namespace

TEST_CASE("without options a Slurm job gets all devices of its task") {
  CHECK(taken({{"CUDA_VISIBLE_DEVICES", "1,3"}}) == "1,3");
  // The step has four GPUs. Each task of the step has one GPU of its own.
  CHECK(taken({{"CUDA_VISIBLE_DEVICES", "2"}, {"SLURM_STEP_GPUS", "0,1,2,3"}}) == "2");
  CHECK(taken({{"SLURM_JOB_GPUS", "0-1,3"}}) == "0,1,3");
  CHECK(taken({{"SLURM_JOB_GPUS", "0,1"}, {"SLURM_STEP_GPUS", "1"}}) == "1");
}

TEST_CASE("a Slurm job without a GPU uses none") {
  CHECK(taken({}) == "cpu");
  CHECK(taken({{"CUDA_VISIBLE_DEVICES", "NoDevFiles"}}) == "cpu");
  CHECK(taken({{"CUDA_VISIBLE_DEVICES", ""}}) == "cpu");
  CHECK(taken({{"CUDA_VISIBLE_DEVICES", "NoDevFiles"}}, gpus(1)) == "E1010");
  CHECK(taken({}, memory()) == "E1010");
  // If Slurm does not manage GPUs, the user may request any number of GPUs.
  CHECK(taken({}, gpus(1)) == "as asked");
}

TEST_CASE("options choose within the allocation, and never beyond it") {
  const Variables two{{"CUDA_VISIBLE_DEVICES", "1,3"}};
  CHECK(taken(two, gpus(1)) == "1");
  CHECK(taken(two, gpus(2)) == "1,3");
  CHECK(taken(two, gpus(3)) == "E1010");
  CHECK(taken(two, gpus(0)) == "cpu");
  CHECK(taken(two, memory()) == "as asked");
  CHECK(taken({{"CUDA_VISIBLE_DEVICES", "1"}}, memory()) == "1");
  model::Request all;
  all.all_gpus = true;
  CHECK(taken(two, all) == "1,3");
}

TEST_CASE("the job's own command is kept") {
  const auto job = slurm_job({{"SLURM_JOB_ID", "7"},
                              {"SLURM_STEP_ID", "0"},
                              {"SLURM_PROCID", "3"},
                              {"SLURMD_NODENAME", "n1"}});
  REQUIRE(job);
  CHECK(job->job == "7");
  CHECK(job->rank == 3);
  CHECK(job->node == "n1");
  CHECK_FALSE(slurm_job({}));
}
