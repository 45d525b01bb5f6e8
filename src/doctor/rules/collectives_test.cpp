#include <doctest/doctest.h>

#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"

using namespace berth::doctor;

namespace collectives_test {
namespace {

/// A machine with two identical GPUs and PyTorch's wheels.
Facts pair(const char* driver, const char* capability, std::uint32_t device, const char* nccl) {
  Facts facts = tests::workstation(driver, "12.8");
  GpuAnswer gpu = facts.driver.gpus->front();
  gpu.compute_capability = std::string(capability);
  facts.driver.gpus = std::vector{gpu, gpu};
  facts.driver.peer_pairs_unsupported = std::vector<std::string>{};
  facts.machine.pci = std::vector{tests::card("0000:01:00.0", 0x10de, device, "nvidia"),
                                  tests::card("0000:02:00.0", 0x10de, device, "nvidia")};
  facts.python.distributions = std::vector<Distribution>{
      {"nvidia-nccl-cu12", nccl, "/venv/site/nvidia_nccl_cu12", 0, {}, ""}};
  TorchBuild build;
  build.version = "2.7.0+cu128";
  build.cuda = std::string("12.8");
  facts.python.torch = build;
  return facts;
}

bool holds(const Facts& facts) {
  return !diagnose(facts, Knowledge{}, {"RT16"}).findings.empty();
}

}  // namespace

TEST_CASE("several RTX 50 want a newer NCCL than PyTorch 2.7 brings") {
  CHECK(holds(pair("570.124.06", "12.0", 0x2b85, "2.26.2")));
  CHECK(!holds(pair("570.124.06", "12.0", 0x2b85, "2.26.5")));
  CHECK(!holds(pair("570.124.06", "12.0", 0x2b85, "2.27.3")));
  CHECK_MESSAGE(!holds(pair("570.124.06", "9.0", 0x2330, "2.21.5")), "other GPUs");
  Facts one = pair("570.124.06", "12.0", 0x2b85, "2.26.2");
  one.driver.gpus = std::vector{one.driver.gpus->front()};
  CHECK_MESSAGE(!holds(one), "one GPU has nobody to exchange with");
}

TEST_CASE("drivers that offered direct transfers between RTX 4090") {
  CHECK(holds(pair("525.85.12", "8.9", 0x2684, "2.18.1")));
  CHECK(!holds(pair("525.105.17", "8.9", 0x2684, "2.18.1")));
  CHECK(!holds(pair("550.54.15", "8.9", 0x2684, "2.18.1")));
  CHECK_MESSAGE(!holds(pair("525.85.12", "8.6", 0x2204, "2.18.1")), "other cards");
  Facts facts = pair("525.85.12", "8.9", 0x2684, "2.18.1");
  facts.driver.peer_pairs_unsupported = std::vector<std::string>{"0-1"};
  CHECK_MESSAGE(!holds(facts), "it says that there are none");
  facts = pair("525.85.12", "8.9", 0x2684, "2.18.1");
  facts.process.environment = Environment{{"NCCL_P2P_DISABLE", "1"}};
  CHECK_MESSAGE(!holds(facts), "nobody takes them");
  facts = pair("525.85.12", "8.9", 0x2684, "2.18.1");
  facts.machine.pci = std::vector{facts.machine.pci->front()};
  CHECK_MESSAGE(!holds(facts), "one card");
}

}  // namespace collectives_test
