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

TEST_CASE("a driver without its GPU is a fault of a desktop, and how a laptop travels") {
  Facts facts;
  facts.machine.pci = std::vector<PciFunction>{};
  facts.machine.modules = std::vector<std::string>{"i915"};
  facts.machine.kernel = std::string("6.11.0-17-generic");
  facts.nvidia.modules_on_disk = std::vector<ModuleFile>{{"6.11.0-17-generic", "/nvidia.ko", true}};
  CHECK(diagnose_with(hardware_rules(), facts, {}).findings.at(0).severity == Severity::kWarning);
  facts.machine.is_laptop = true;
  CHECK(diagnose_with(hardware_rules(), facts, {}).findings.at(0).severity == Severity::kInfo);
}

TEST_CASE("a GPU that was lost before it started has no Xid, and is told by the kernel's words") {
  Facts facts;
  facts.machine.modules = std::vector<std::string>{"nvidia"};
  facts.machine.pci = std::vector{nvidia_gpu({})};
  facts.machine.kernel_log = std::vector<std::string>{
      "NVRM: The NVIDIA GPU 0000:01:00.0", "NVRM: (PCI ID: 10de:26b5) installed in this system has",
      "NVRM: fallen off the bus and is not responding to commands."};
  CHECK(first(facts) == "HW08");
  facts.machine.pci = std::vector{nvidia_gpu(std::string("nvidia"))};  // it came back
  CHECK(first(facts).empty());
  PciFunction other = nvidia_gpu({});
  other.address = "0000:41:00.0";
  facts.machine.pci = std::vector{other};
  CHECK(first(facts) == "HW02");
}
