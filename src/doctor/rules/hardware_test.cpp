#include <doctest/doctest.h>

#include "doctor/diagnose.hpp"

using namespace berth::doctor;

namespace {

PciFunction nvidia_gpu(Fact<std::string> driver) {
  PciFunction gpu;
  gpu.address = "0000:01:00.0";
  gpu.vendor = 0x10de;
  gpu.device = 0x2684;
  gpu.class_code = 0x030000;
  gpu.driver = std::move(driver);
  return gpu;
}

std::string first(const Facts& facts) {
  const auto found = diagnose_with(hardware_rules(), facts, {}).findings;
  return found.empty() ? "" : found.front().id;
}

}  // namespace

TEST_CASE("a GPU with its driver is nothing to speak of") {
  Facts facts;
  facts.machine.pci = std::vector{nvidia_gpu(std::string("nvidia"))};
  CHECK(first(facts).empty());
}

TEST_CASE("a GPU that no driver, or another one, has bound is named") {
  Facts facts;
  facts.machine.pci = std::vector{nvidia_gpu({})};
  CHECK(first(facts) == "HW02");
  facts.machine.pci = std::vector{nvidia_gpu(std::string("nouveau"))};
  CHECK(first(facts) == "HW03");
}

TEST_CASE("a bus that cannot be read has no GPU missing") {
  Facts facts;
  facts.machine.pci = Unreadable{"/sys/bus/pci/devices", 13};
  const auto diagnosis = diagnose_with(hardware_rules(), facts, {});
  CHECK(diagnosis.findings.empty());
  CHECK(diagnosis.not_checked.size() >= 5);
}
