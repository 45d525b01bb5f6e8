#include <doctest/doctest.h>

#include "doctor/diagnose.hpp"
#include "doctor/rules/ground_for_tests.hpp"

using namespace berth::doctor;
using berth::model::Diagnosis;

TEST_CASE("an Xid of memory that NVML counts is said once; an old driver's Xid is read, too") {
  Facts facts = healthy();
  log(facts,
      "NVRM: Xid (0000:01:00): 48, An uncorrectable double bit error (DBE) has been detected");
  CHECK(diagnose_with(ground_rules(), facts, {}).findings.front().id == "DRV23");
  first_answer(facts, [](auto& gpu) { gpu.ecc_uncorrected = 2; });
  const Diagnosis diagnosis = diagnose_with(ground_rules(), facts, {});
  REQUIRE(diagnosis.findings.size() == 1);
  CHECK(diagnosis.findings.front().id == "DRV26");
}

TEST_CASE("the gravest Xid of a GPU is told, with what mends it") {
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
