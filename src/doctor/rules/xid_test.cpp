#include <doctest/doctest.h>

#include "doctor/rules/diagnose.hpp"
#include "doctor/rules/ground_for_tests.hpp"

using namespace berth::doctor;
using berth::model::Diagnosis;

TEST_CASE("an Xid of memory that NVML counts is said once, and an old driver's Xid is read, too") {
  Facts facts = healthy();
  log(facts,
      "NVRM: Xid (0000:01:00): 48, An uncorrectable double bit error (DBE) has been detected");
  CHECK(diagnose_with(ground_rules(), facts, {}).findings.front().id == "DRV23");
  first_answer(facts, [](auto& gpu) { gpu.ecc_uncorrected = 2; });
  const Diagnosis diagnosis = diagnose_with(ground_rules(), facts, {});
  REQUIRE(diagnosis.findings.size() == 1);
  CHECK(diagnosis.findings.front().id == "DRV26");
}

TEST_CASE("the most serious Xid of a GPU is reported with its fix") {
  Facts facts = healthy();
  facts.nvidia.module_version = facts.nvidia.library_version = std::string("525.60.13");
  log(facts, "NVRM: Xid (PCI:0000:01:00): 45, pid=7, Ch 00000010");
  log(facts, "NVRM: Xid (PCI:0000:01:00): 119, pid=7, Timeout waiting for RPC from GSP!");
  log(facts, "NVRM: Xid (PCI:0000:41:00): 31, pid=9, Ch 00000010");
  const auto findings = diagnose_with(xid_rules(), facts, {}).findings;
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].title.find("119") != std::string::npos);
  CHECK(findings[0].fix.front().says.find("525.105.17") != std::string::npos);
  CHECK(findings[1].severity == Severity::kWarning);
}

TEST_CASE("a current state comes before its Xid, and a past Xid is not a fault") {
  Facts facts = healthy();
  log(facts, "NVRM: Xid (PCI:0000:01:00): 79, pid=7, GPU has fallen off the bus.");
  CHECK(diagnose_with(ground_rules(), facts, {}).findings.front().id == "DRV23");
  auto functions = *facts.machine.pci;
  functions.front().gone = true;
  facts.machine.pci = functions;
  const Diagnosis gone = diagnose_with(ground_rules(), facts, {});
  CHECK(gone.findings.front().id == "HW08");
  CHECK(gone.findings.front().evidence.front().find("79") != std::string::npos);
  for (const auto& one : gone.findings) CHECK(one.id != "DRV23");

  Facts contained = healthy();
  log(contained, "NVRM: Xid (PCI:0000:01:00): 94, pid=7, Contained: SM (0x1).");
  first_answer(contained, [](auto& gpu) { gpu.remap_pending = {}; });
  CHECK(diagnose_with(ground_rules(), contained, {}).findings.front().severity > Severity::kInfo);
  first_answer(contained, [](auto& gpu) {
    gpu.remap_pending = gpu.remap_failed = false;
    gpu.ecc_uncorrected = 0;
  });
  CHECK(diagnose_with(ground_rules(), contained, {}).findings.front().severity == Severity::kInfo);
}

TEST_CASE("an MPS server is the one program of an exclusive GPU, and lets the others in") {
  Facts facts = healthy();
  first_answer(facts, [](auto& gpu) {
    gpu.compute_mode = std::string("exclusive process");
    gpu.processes_memory_bytes = 1 << 20;
  });
  facts.driver.cuda_init = 0;
  facts.nvidia.mps_control = {};
  CHECK(diagnose_with(ground_rules(), facts, {}).findings.front().id == "DRV20");
  facts.nvidia.mps_control = Node{};
  for (const auto& one : diagnose_with(ground_rules(), facts, {}).findings)
    CHECK(one.id != "DRV20");
}

TEST_CASE("an unknown Xid also has a next step") {
  Facts facts = healthy();
  facts.machine.kernel_log =
      std::vector<std::string>{"[2.0] NVRM: Xid (PCI:0000:01:00): 999, pid=1, something new"};
  const auto found = diagnose_with(ground_rules(), facts, {}).findings;
  REQUIRE_FALSE(found.empty());
  CHECK(found.front().id == "DRV23");
  CHECK_FALSE(found.front().fix.empty());
}
