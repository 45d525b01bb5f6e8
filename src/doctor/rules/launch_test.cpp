#include <doctest/doctest.h>

#include "doctor/diagnose.hpp"
#include "doctor/rules/machines_for_tests.hpp"

using namespace berth::doctor;

namespace {

void add(Facts& facts, const char* name, const char* version) {
  auto all = facts.python.distributions.value_or({});
  all.push_back({name, version, std::string("/venv/site/") + name, 0, {}, ""});
  facts.python.distributions = all;
}

/// A container with PyTorch, whose user has no account.
Facts nobody(const char* torch) {
  Facts facts = tests::workstation("550.54.15", "12.4");
  facts.container.kind = std::string("docker");
  facts.process.has_account = false;
  facts.process.identity = Identity{1042, 0, {}};
  add(facts, "torch", torch);
  TorchBuild build;
  build.version = torch;
  build.cuda = std::string("12.4");
  facts.python.torch = build;
  return facts;
}

/// "ENV28 error"; "" it does not hold.
std::string said(const char* rule, const Facts& facts) {
  const auto found = diagnose(facts, Knowledge{}, {rule}).findings;
  if (found.empty()) return "";
  const Severity severity = found.front().severity;
  return severity == Severity::kError     ? "error"
         : severity == Severity::kWarning ? "warning"
                                          : "info";
}

std::string said(const char* name, const char* value) {
  Facts facts = nobody("2.6.0");
  facts.process.environment = Environment{{name, value}};
  return said("ENV28", facts);
}

}  // namespace

TEST_CASE("a user without a name, where PyTorch asks for it") {
  Facts facts = nobody("2.6.0");
  CHECK(said("ENV28", facts) == "warning");
  add(facts, "vllm", "0.8.0");
  CHECK(said("ENV28", facts) == "error");
  CHECK(said("USER", "app").empty());
  CHECK(said("LOGNAME", "app").empty());
  CHECK(said("TORCHINDUCTOR_CACHE_DIR", "/tmp/inductor").empty());
  CHECK_MESSAGE(said("ENV28", nobody("2.13.0")).empty(), "which does without");
  CHECK_MESSAGE(said("ENV28", nobody("1.13.1")).empty(), "which compiles nothing");
  facts.process.has_account = true;
  CHECK_MESSAGE(said("ENV28", facts).empty(), "by LDAP, say");
  facts.process.has_account = Unreadable{"has_account", 0};
  CHECK(said("ENV28", facts).empty());
  facts.process.has_account = false;
  facts.container.kind = {};
  CHECK_MESSAGE(said("ENV28", facts).empty(), "a machine");
}

TEST_CASE("a disk without room, or without inodes, where programs write") {
  const auto of = [](std::uint64_t bytes, std::optional<std::uint64_t> files, const char* what) {
    Facts facts;
    facts.process.rooms = std::vector{Room{"/x", what, bytes, files}};
    return said("RT14", facts);
  };
  constexpr std::uint64_t kMib = 1 << 20;
  CHECK(of(0, 100, "TMPDIR") == "error");
  CHECK(of(90 * kMib, 100, "HOME") == "warning");
  CHECK(of(9000 * kMib, 0, "HOME") == "error");
  CHECK(of(0, 100, "/var/lib/docker") == "warning");
  CHECK(of(300 * kMib, 100, "HOME").empty());
  CHECK_MESSAGE(of(9000 * kMib, std::nullopt, "HOME").empty(), "it does not count inodes");
}
