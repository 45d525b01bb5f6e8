#include "doctor/diagnose.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cerrno>

using namespace berth::doctor;

namespace {

void always(Examination& look) {
  look.found("here");
}
void never(Examination&) {}
void blind(Examination& look) {
  const Fact<int> log(Unreadable{"/dev/kmsg", EACCES});
  static_cast<void>(look.see(log));
}

std::vector<std::string> order(const std::vector<Rule>& rules) {
  std::vector<std::string> ids;
  for (const auto& finding : diagnose_with(rules, {}, {}).findings) ids.push_back(finding.id);
  return ids;
}

constexpr Layer kLow = Layer::kDriver, kUp = Layer::kFramework;

}  // namespace

TEST_CASE("the lower layer stands first, and what keeps from use before what only slows") {
  CHECK(order({{"FW1", kUp, Severity::kFatal, true, "", "", always},
               {"DRV1", kLow, Severity::kFatal, true, "", "", always},
               {"HW1", Layer::kHardware, Severity::kWarning, true, "", "", always}}) ==
        std::vector<std::string>{"DRV1", "FW1", "HW1"});
}

TEST_CASE("what explains stands first, on whatever layer, and says so") {
  const std::vector<Rule> rules{{"DRV1", kLow, Severity::kFatal, true, "", "", always},
                                {"ENV1", kUp, Severity::kWarning, true, "", "DRV*", always}};
  CHECK(order(rules) == std::vector<std::string>{"ENV1", "DRV1"});
  const auto found = diagnose_with(rules, {}, {}).findings;
  CHECK(found[0].explains == std::vector<std::string>{"DRV1"});
  CHECK(found[1].explained_by == "ENV1");
}

TEST_CASE("a rule that was never shown right stands below one that was, and explains it not") {
  CHECK(order({{"HW1", Layer::kHardware, Severity::kFatal, false, "", "FW*", always},
               {"FW1", kUp, Severity::kError, true, "", "", always}}) ==
        std::vector<std::string>{"FW1", "HW1"});
}

TEST_CASE("rules that explain each other in a circle hang nobody") {
  CHECK(order({{"A1", kLow, Severity::kFatal, true, "", "B1", always},
               {"B1", kLow, Severity::kFatal, true, "", "A1", always}})
            .size() == 2);
}

TEST_CASE("a rule that could not see is not checked, never fine") {
  const auto diagnosis =
      diagnose_with(std::array<Rule, 2>{{{"A1", kLow, Severity::kFatal, true, "", "", blind},
                                         {"B1", kLow, Severity::kFatal, true, "", "", never}}},
                    {}, {});
  CHECK(diagnosis.findings.empty());
  CHECK(diagnosis.checked == std::vector<std::string>{"B1"});
  REQUIRE(diagnosis.not_checked.size() == 1);
  CHECK(diagnosis.not_checked[0].id == "A1");
  CHECK(diagnosis.not_checked[0].why == "/dev/kmsg: Permission denied");
}
