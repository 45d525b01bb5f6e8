#include "doctor/rules/diagnose.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cerrno>

#include "base/language_for_tests.hpp"
#include "doctor/rules/rule_words.hpp"
#include "doctor/rules/unread_words.hpp"
#include "doctor/source/source.hpp"

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

void blind_in_passing(Examination&) {
  const Fact<int> log(Unreadable{"/dev/kmsg", EACCES});
  static_cast<void>(log.value_or(0));
}
void misses(Examination& look) {
  Fact<std::vector<int>> gpus(std::vector<int>{});
  gpus.doubt({"/sys/bus/pci/devices/0000:01:00.0/class", EACCES});
  if (look.see_whole(gpus) != nullptr) look.found("none is here");
}
void idle_fact(Examination&) {
  const Fact<int> answer(Unreadable{"cuInit", 0});
  static_cast<void>(answer.has_value());
}
void information(Examination& look) {
  look.found("here").severity = Severity::kInfo;
}

std::vector<std::string> order(const std::vector<Rule>& rules) {
  std::vector<std::string> ids;
  for (const auto& finding : diagnose_with(rules, {}, {}).findings) ids.push_back(finding.id);
  return ids;
}

constexpr Layer kLow = Layer::kDriver, kUp = Layer::kFramework;

}  // namespace

TEST_CASE("lower layers come first, and failures before slowdowns") {
  CHECK(order({{"FW1", kUp, Severity::kFatal, true, "", "", always},
               {"DRV1", kLow, Severity::kFatal, true, "", "", always},
               {"HW1", Layer::kHardware, Severity::kWarning, true, "", "", always}}) ==
        std::vector<std::string>{"DRV1", "FW1", "HW1"});
}

TEST_CASE("an explaining finding comes first on any layer, and the other names it") {
  const std::vector<Rule> rules{{"DRV1", kLow, Severity::kFatal, true, "", "", always},
                                {"ENV1", kUp, Severity::kWarning, true, "", "DRV*", always}};
  CHECK(order(rules) == std::vector<std::string>{"ENV1", "DRV1"});
  const auto found = diagnose_with(rules, {}, {}).findings;
  CHECK(found[0].explains == std::vector<std::string>{"DRV1"});
  CHECK(found[1].explained_by == "ENV1");
}

TEST_CASE("an unproven rule comes after a proven one and does not explain it") {
  CHECK(order({{"HW1", Layer::kHardware, Severity::kFatal, false, "", "FW*", always},
               {"FW1", kUp, Severity::kError, true, "", "", always}}) ==
        std::vector<std::string>{"FW1", "HW1"});
}

TEST_CASE("rules that explain each other in a circle cause no endless loop") {
  CHECK(order({{"A1", kLow, Severity::kFatal, true, "", "B1", always},
               {"B1", kLow, Severity::kFatal, true, "", "A1", always}})
            .size() == 2);
}

TEST_CASE("a rule that could not read its facts counts as not checked, never as fine") {
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

TEST_CASE("the finding of a pasted error comes first, after the finding that explains it") {
  const std::vector<Rule> rules{{"HW1", Layer::kHardware, Severity::kFatal, true, "", "", always},
                                {"DRV1", kLow, Severity::kWarning, true, "", "FW2", always},
                                {"FW2", kUp, Severity::kError, true, "", "", always},
                                {"LIB3", Layer::kLibraries, Severity::kFatal, true, "", "", always},
                                {"SEE1", kUp, Severity::kInfo, true, "", "", always},
                                {"NEW1", kUp, Severity::kFatal, false, "", "", always}};
  const auto with = [&](std::vector<std::string> spoken, int strength) {
    RequestFacts asked;
    asked.error = std::vector<Recognised>{{"x", 1, "", strength, std::move(spoken), ""}};
    std::vector<std::string> ids;
    for (const auto& one : diagnose_with(rules, {}, {}, asked).findings) ids.push_back(one.id);
    return ids;
  };
  using Ids = std::vector<std::string>;
  const Ids without{"HW1", "DRV1", "LIB3", "FW2", "NEW1", "SEE1"};
  CHECK(order(rules) == without);
  CHECK(with({"FW2"}, 2) == Ids{"DRV1", "FW2", "HW1", "LIB3", "NEW1", "SEE1"});
  CHECK(with({"LIB*"}, 1) == Ids{"LIB3", "HW1", "DRV1", "FW2", "NEW1", "SEE1"});
  // Information (SEE1) and findings of unproven rules (NEW1) stay last, even if the message names
  // them.
  CHECK(with({"SEE1", "NEW1", "OTHER"}, 2) == without);
}

TEST_CASE("a pasted error that nothing explains is the first finding, with its next step") {
  const auto first = [](Facts facts, const char* text, const char* rules = "") {
    RequestFacts asked;
    asked.error = read_error_text(text);
    std::vector<std::string> only{"HW01", "RT02", "ERR01"};
    if (*rules != '\0') only.emplace_back(rules);
    const auto diagnosis = diagnose(facts, Knowledge{}, only, asked);
    REQUIRE_FALSE(diagnosis.findings.empty());
    const Finding& one = diagnosis.findings.front();
    CHECK(diagnosis.verdict == one.title);
    return one.id + " " + (one.fix.empty() ? "" : one.fix.front().command);
  };
  Facts none;
  none.machine.pci = std::vector<PciFunction>{};
  CHECK(first(none, "CUDA out of memory. Tried to allocate 2.00 GiB.") == "ERR01 berth ps");
  CHECK(first(none, "AssertionError: Torch not compiled with CUDA enabled")
            .starts_with("ERR01 device = "));
  CHECK(first(none, "No module named 'torch'") == "ERR01 berth doctor -- python train.py");
  // RT02 explains the error with the memory of the GPUs, so ERR01 has no finding.
  Facts full;
  GpuAnswer gpu;
  gpu.pci_address = "0000:01:00.0";
  gpu.memory_total_bytes = 24ULL << 30;
  gpu.memory_used_bytes = 23ULL << 30;
  full.driver.gpus = std::vector{gpu};
  CHECK(first(full, "CUDA out of memory. Tried to allocate 2.00 GiB.") == "RT02 berth ps");
  // ERR01 has no finding if there is no pasted error, or if the pasted text has no known message.
  CHECK(diagnose(none, Knowledge{}, {"ERR01"}).findings.empty());
  RequestFacts asked;
  asked.error = read_error_text("all is well");
  CHECK(diagnose(none, Knowledge{}, {"ERR01"}, asked).findings.empty());
}

TEST_CASE("a message with many causes comes after a fault that prevents the use of the GPU") {
  const std::vector<Rule> rules{{"HW1", Layer::kHardware, Severity::kFatal, true, "", "", always},
                                {"ERR01", Layer::kRuntime, Severity::kError, false, "", "", never}};
  RequestFacts asked;
  asked.error = std::vector<Recognised>{{"x", 1, "", 1, {"OTHER"}, ""}};
  CHECK(diagnose_with(rules, {}, {}, asked).findings.size() == 1);
  asked.error = std::vector<Recognised>{{"x", 1, "", 2, {"OTHER"}, ""}};
  CHECK(diagnose_with(rules, {}, {}, asked).findings.front().id == "ERR01");
  asked.error = std::vector<Recognised>{{"x", 1, "", 2, {"HW1"}, ""}};
  CHECK(diagnose_with(rules, {}, {}, asked).findings.size() == 1);
}

TEST_CASE("a message counts as compared only if everything that could explain it was checked") {
  const auto compared = [](const Facts& facts, const char* text) {
    RequestFacts asked;
    asked.error = read_error_text(text);
    const auto diagnosis = diagnose(facts, Knowledge{}, {}, asked);
    return parts_of(asked, diagnosis, &facts).error->front().compared;
  };
  const char* ptx = "the provided PTX was compiled with an unsupported toolchain";
  Facts none;
  none.machine.pci = std::vector<PciFunction>{};
  CHECK_FALSE(compared(none, ptx));  // there is no GPU and no Python to examine
  Facts facts;
  facts.driver.gpus = std::vector<GpuAnswer>{{}};
  facts.toolchain.building = Unreadable{"nvcc", 0};
  CHECK_FALSE(compared(facts, ptx));
}

TEST_CASE("a message about a framework was not compared with a Python that does not have it") {
  const std::vector<Rule> rules{{"FW1", kLow, Severity::kFatal, true, "", "", never}};
  Facts facts;
  facts.driver.gpus = std::vector<GpuAnswer>{{}};
  RequestFacts asked;
  asked.error = std::vector<Recognised>{{"x", 1, "Torch not compiled with CUDA", 2, {"FW1"}, ""}};
  const auto compared = [&](const char* package) {
    Distribution one;
    one.name = package;
    facts.python.distributions = std::vector<Distribution>{one};
    const auto diagnosis = diagnose_with(rules, facts, {}, asked);
    return parts_of(asked, diagnosis, &facts).error->front().compared;
  };
  CHECK(compared("torch"));
  CHECK_FALSE(compared("numpy"));
  asked.error = std::vector<Recognised>{{"x", 1, "no kernel image is available", 2, {"FW1"}, ""}};
  CHECK(compared("torch"));
  CHECK_FALSE(compared("numpy"));
}

TEST_CASE("a message about a toolkit was not compared on a machine without one") {
  const std::vector<Rule> rules{{"ENV11", kLow, Severity::kFatal, true, "", "", never}};
  Facts facts;
  facts.driver.gpus = std::vector<GpuAnswer>{{}};
  Distribution torch;
  torch.name = "torch";
  facts.python.distributions = std::vector<Distribution>{torch};
  RequestFacts asked;
  asked.error =
      std::vector<Recognised>{{"x", 1, "the CUDA that compiled PyTorch", 2, {"ENV11"}, ""}};
  const auto compared = [&] {
    const auto diagnosis = diagnose_with(rules, facts, {}, asked);
    return parts_of(asked, diagnosis, &facts).error->front().compared;
  };
  CHECK_FALSE(compared());
  facts.toolchain.building = Toolkit{};
  CHECK(compared());
}

TEST_CASE("a pasted error shows its result") {
  const std::vector<Rule> rules{{"A1", kLow, Severity::kFatal, true, "", "", always},
                                {"B1", kLow, Severity::kFatal, true, "", "", blind},
                                {"C1", kLow, Severity::kFatal, true, "", "", never}};
  RequestFacts asked;
  asked.error = std::vector<Recognised>{{"x", 7, "the line", 2, {"A1", "B1", "C1"}, "so"}};
  const auto diagnosis = diagnose_with(rules, {}, {}, asked);
  CHECK(diagnosis.findings.size() == 1);
  const auto messages = *parts_of(asked, diagnosis).error;
  REQUIRE(messages.size() == 1);
  CHECK(messages[0].line == 7);
  CHECK(messages[0].shown_by == std::vector<std::string>{"A1"});
  CHECK(messages[0].not_checked == std::vector<std::string>{"B1"});
  CHECK_FALSE(parts_of({}, diagnosis).error);
}

namespace {

Facts with_gpu() {
  Facts facts;
  facts.driver.gpus = std::vector<GpuAnswer>{{}};
  facts.machine.pci = std::vector<PciFunction>{};
  return facts;
}

RequestFacts tried(ProbeState state, std::vector<ProbedDevice> devices = {}) {
  RequestFacts asked;
  asked.probe = std::vector<ProbeAnswer>{{"torch", "2.9", state, "why", std::move(devices)}};
  return asked;
}

}  // namespace

TEST_CASE("a kernel that does not run is a finding that any GPU failure explains") {
  const std::vector<Rule> rules{{"DRV1", kLow, Severity::kFatal, true, "", "", always},
                                {"PRB01", Layer::kRuntime, Severity::kError, false, "", "", never}};
  const auto found =
      diagnose_with(rules, with_gpu(), {}, tried(ProbeState::kFailed, {{1, "", false, "why"}}))
          .findings;
  REQUIRE(found.size() == 2);
  CHECK(found[0].id == "DRV1");
  CHECK(found[1].explained_by == "DRV1");
  CHECK(found[1].title == "torch 2.9 cannot run a kernel on its GPU 1");
  // PRB01 has no finding if there is no usable GPU. It also has none if the framework works, is
  // built for the CPU, or was not started before the time limit. Without a probe, PRB01 is not
  // checked.
  CHECK(diagnose_with(rules, with_gpu(), {}).checked.empty());
  Facts none;
  none.driver.gpus = std::vector<GpuAnswer>{};
  none.machine.pci = std::vector<PciFunction>{};
  CHECK(diagnose_with(rules, none, {}, tried(ProbeState::kNoDevice)).findings.size() == 1);
  for (const ProbeState fine : {ProbeState::kRan, ProbeState::kCpuBuild, ProbeState::kNotReached})
    CHECK(diagnose_with(rules, with_gpu(), {}, tried(fine)).findings.size() == 1);
  RequestFacts unreadable;
  unreadable.probe = Unreadable{"another container", 0};
  CHECK(diagnose_with(rules, with_gpu(), {}, unreadable).not_checked.size() == 1);
}

TEST_CASE("if a framework ran a kernel, a rule that denies it is doubtful") {
  const std::vector<Rule> rules{{"FW1", kUp, Severity::kFatal, true, "", "", always},
                                {"HW1", Layer::kHardware, Severity::kFatal, true, "", "", always}};
  const auto found =
      diagnose_with(rules, with_gpu(), {}, tried(ProbeState::kRan, {{0, "", true, ""}})).findings;
  REQUIRE(found.size() == 2);
  CHECK(found[1].id == "FW1");
  CHECK(found[1].confidence == Confidence::kLow);
  CHECK(found[1].evidence.size() == 1);
  CHECK(found[0].confidence == Confidence::kHigh);
}

TEST_CASE("a rule that could not read a fact always reports it") {
  for (const auto look : {blind_in_passing, misses}) {
    const auto diagnosis = diagnose_with(
        std::array<Rule, 1>{{{"A1", kLow, Severity::kFatal, true, "", "", look}}}, {}, {});
    CHECK(diagnosis.findings.empty());
    CHECK(diagnosis.checked.empty());
    CHECK(diagnosis.not_checked.size() == 1);
  }
}

TEST_CASE("what nobody was asked to read is the rule's own to say") {
  CHECK(diagnose_with(
            std::array<Rule, 1>{{{"A1", kLow, Severity::kFatal, true, "", "", idle_fact}}}, {}, {})
            .checked.size() == 1);
}

TEST_CASE("an information finding explains nothing") {
  CHECK(order({{"DRV1", kLow, Severity::kError, true, "", "DRV2", information},
               {"DRV2", kLow, Severity::kError, false, "", "", always}}) ==
        std::vector<std::string>{"DRV2", "DRV1"});
}

TEST_CASE("a pasted out-of-memory error is a finding only where the GPUs show it") {
  const auto gpu = [](const char* address, std::uint64_t used) {
    GpuAnswer one;
    one.pci_address = address;
    one.memory_total_bytes = 24ULL << 30;
    one.memory_used_bytes = used << 30;
    return one;
  };
  const auto titles = [](const Facts& facts, const char* wanted) {
    RequestFacts asked;
    asked.error = read_error_text(std::string("CUDA out of memory. Tried to allocate ") + wanted +
                                  ". GPU 0 has a total capacity of 23.64 GiB of which 1.21 GiB is "
                                  "free.");
    std::string all;
    for (const auto& one : diagnose(facts, Knowledge{}, {"RT02"}, asked).findings) {
      all += one.title + "\n";
      for (const auto& fix : one.fix) all += fix.says + "\n";
    }
    return all;
  };
  Facts facts;
  CHECK(titles(facts, "2.00 GiB").empty());
  facts.driver.gpus = std::vector{gpu("0000:01:00.0", 1), gpu("0000:02:00.0", 1)};
  // There is no finding, because enough memory is free now. It is unknown which process used it
  // when the error occurred.
  CHECK(titles(facts, "2.00 GiB").empty());
  CHECK(titles(facts, "95.00 GiB").find("no GPU here has more than 24.0 GiB") != std::string::npos);
  facts.driver.gpus = std::vector{gpu("0000:01:00.0", 23), gpu("0000:02:00.0", 1)};
  CHECK(titles(facts, "2.00 GiB").find("GPU 0000:02:00.0 has 23.0 GiB") != std::string::npos);
  facts.driver.gpus = std::vector{gpu("0000:01:00.0", 23), gpu("0000:02:00.0", 23)};
  CHECK(titles(facts, "2.00 GiB").find("most free memory has 1.0 GiB") != std::string::npos);
  CHECK(titles(facts, "2.00 GiB").find("halve the batch") != std::string::npos);
  facts.driver.gpus = Unreadable{"gpus", 0};
  CHECK(titles(facts, "95.00 GiB").empty());
  RequestFacts none;
  CHECK(diagnose(facts, Knowledge{}, {"RT02"}, none).not_checked.empty());
}

TEST_CASE(
    "if nothing could be checked the machine is not healthy, and a missing GPU is a verdict") {
  Facts facts;
  facts.machine.kernel_log = Unreadable{"kernel.log", 0};
  facts.machine.pci = Unreadable{"/sys/bus/pci/devices", 13};
  const auto blind = diagnose(facts, Knowledge{}, {"HW01"});
  CHECK(blind.verdict == "nothing could be checked");
  REQUIRE(blind.not_checked.size() == 1);
  facts.machine.pci = std::vector<PciFunction>{};
  const auto without = diagnose(facts, Knowledge{}, {"HW01"});
  CHECK(without.verdict == "there is no GPU on the PCI bus; nothing wrong was found");
}

TEST_CASE("unchecked facts are named in words, not by their keys") {
  CHECK(said_of({"silent", 0}) == "whether a GPU answers");
  CHECK(said_of({"mig_enabled", 0}) == "whether MIG is on");
  CHECK(said_of({"/dev/kmsg", 1}) == "/dev/kmsg: Operation not permitted");
  CHECK(said_of({"/proc/modules", 61}) == "not available on a simulated machine");
}

TEST_CASE("every rule documents its facts, its fix and what refutes it") {
  for (const Rule& rule : all_rules()) {
    CAPTURE(rule.id);
    const RuleWords words = words_of_rule(rule.id);
    CHECK(*words.looks_at != '\0');
    CHECK(*words.mended_by != '\0');
    CHECK(*words.refuted_by != '\0');
  }
  for (const source::Row& row : source::rows()) CHECK(*words_of_rule(row.id).refuted_by != '\0');
}

TEST_CASE("messages of the kernel are explained in the reader's language") {
  const berth::InLanguage chinese(berth::Language::kChinese);
  CHECK(said_of({"/dev/kmsg", EPERM}) == "/dev/kmsg: 不允许的操作");
  CHECK(said_of({"/sys", ENOENT}).find("No such") == std::string::npos);
}

TEST_CASE("a machine with an unreadable bus is not called healthy") {
  Facts facts;
  facts.machine.pci = Unreadable{"/sys", ENOENT};
  const auto seen = diagnose(facts, Knowledge{}, {"HW01"});
  REQUIRE(seen.not_checked.size() == 1);
  CHECK(seen.not_checked.front().why == "/sys is empty or not mounted here");
  // A fact counts as unreadable even if the rule only tests whether it has a value.
  const std::vector<Rule> passing{
      {"X1", kLow, Severity::kFatal, true, "", "",
       [](Examination& look) { static_cast<void>(look.facts.machine.pci.has_value()); }},
      {"X2", kLow, Severity::kFatal, true, "", "", never}};
  const auto more = diagnose_with(passing, facts, {});
  CHECK(more.not_checked.size() == 1);
  CHECK(more.checked == std::vector<std::string>{"X2"});
  // If HW01 could not look for a GPU, the verdict must not say that nothing is wrong with the
  // machine.
  const std::vector<Rule> blind_and_seeing{
      {"HW01", kLow, Severity::kInfo, true, "", "",
       [](Examination& look) { static_cast<void>(look.see(look.facts.machine.pci)); }},
      {"X2", kLow, Severity::kFatal, true, "", "", never}};
  CHECK(diagnose_with(blind_and_seeing, facts, {}).verdict ==
        "nothing wrong was found, but it was not checked whether there is a GPU");
}
