#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/options.hpp"

namespace sim = berth::sim;
namespace wire = berth::wire::sim;

TEST_CASE("the hint for a bad fault is a command that runs") {
  const auto bad = sim::parse_fault("nonsense", 1);
  REQUIRE(!bad);
  CHECK(bad.error().hint.find("--machine lab-4x3090 --fault lost:3@10") != std::string::npos);
  CHECK(bad.error().hint.ends_with("-- berth"));
}

TEST_CASE("a fault is a kind with a device, a time and a value") {
  const auto fault = sim::parse_fault("slow:3@1.5=50us", 8);
  REQUIRE(fault);
  CHECK(fault->kind == wire::kSlow);
  CHECK(fault->device == 3U);
  CHECK(fault->from_ns == 1'500'000'000);
  CHECK(fault->value == 50'000);

  const auto plain = sim::parse_fault("no-driver", 0);
  REQUIRE(plain);
  CHECK(plain->kind == wire::kNoDriver);
  CHECK(!plain->device);

  CHECK(sim::parse_fault("xid", 1)->value == 79);
  CHECK(sim::parse_fault("xid:0=48", 1)->value == 48);
  CHECK(sim::parse_fault("zombie=3GiB", 1)->value == std::uint64_t{3} << 30U);
  CHECK(sim::parse_fault("throttle=sw_thermal", 1)->value == 0x20);
  CHECK(sim::parse_fault("remap=failed", 1)->value == wire::kRemapFailed);
  CHECK(sim::parse_fault("hung:0=all", 1)->value == wire::kHungAll);
  CHECK(sim::parse_fault("mig", 1)->value == wire::kMigMake);
  CHECK(sim::parse_fault("mig=remove", 1)->value == wire::kMigRemove);
  CHECK(sim::parse_fault("no-permission:0=memory", 1)->value == wire::kNoPermissionMemory);
}

TEST_CASE("an invalid fault is refused with a reason") {
  struct Row {
    std::string text, says;
  };
  const std::vector<Row> rows{{"", "no fault"},
                              {"lots", "no fault"},
                              {"lost:8", "'8'"},
                              {"lost:x", "'x'"},
                              {"lost:-1", "'-1'"},
                              {"lost@", "seconds"},
                              {"lost@-1", "seconds"},
                              {"lost@nan", "seconds"},
                              {"lost=1", "is not a valid value"},
                              {"slow=fast", "is not a valid value"},
                              {"slow=", "is not a valid value"},
                              {"slow=2h", "is not a valid value"},
                              {"xid=0", "is not a valid value"},
                              {"ecc=-1", "is not a valid value"},
                              {"zombie=3", "is not a valid value"},
                              {"mig=both", "is not a valid value"},
                              {"hung=1s", "is not a valid value"},
                              {"remap=0", "is not a valid value"},
                              {"mismatch:0", "driver"},
                              {"no-driver:1", "driver"}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto fault = sim::parse_fault(row.text, 8);
    REQUIRE(!fault);
    CHECK(fault.error().id == "E0607");
    CHECK(fault.error().message.find(row.says) != std::string::npos);
  }
  CHECK(sim::parse_fault("losst", 8).error().hint.find("lost") != std::string::npos);
}

TEST_CASE("an attached process is a pid, a device and a size") {
  const auto attached = sim::parse_attached("4711:1:8GiB", 2);
  REQUIRE(attached);
  CHECK(attached->pid == 4711);
  CHECK(attached->device == 1);
  CHECK(attached->memory_bytes == std::uint64_t{8} << 30U);
  for (const char* bad : {"", "1", "1:0", "1:0:8", "0:0:8GiB", "x:0:8GiB", "1:2:8GiB", "1:0:8GiB:9",
                          "99999999:0:8GiB"}) {
    CAPTURE(bad);
    REQUIRE(!sim::parse_attached(bad, 2));
    CHECK(sim::parse_attached(bad, 2).error().id == "E0608");
  }
}

TEST_CASE("seconds may have a fraction and a unit") {
  CHECK(*sim::parse_seconds("12") == 12'000'000'000);
  CHECK(*sim::parse_seconds("12.5s") == 12'500'000'000);
  CHECK(*sim::parse_seconds("0") == 0);
  for (const char* bad : {"", "s", "1m", "-1", "1e99", "inf", "0x10", " 1"}) {
    CAPTURE(bad);
    CHECK(!sim::parse_seconds(bad));
  }
}

TEST_CASE("a fault that no device can show is refused") {
  struct Row {
    std::string machine, fault;
    bool shown;
  };
  const std::vector<Row> rows{
      {"lab-4x3090", "ecc", false},        {"lab-4x3090", "remap:2", false},
      {"lab-4x3090", "lost", true},        {"dgx-h100-8", "ecc:3", true},
      {"dgx-h100-8", "remap", true},       {"driver-470", "ecc", true},
      {"driver-470", "remap", false},      {"amd-mi300x-8", "hung", false},
      {"h100-mig", "mig", true},           {"dgx-a100-mig", "mig", false},
      {"amd-mi300x-8", "zombie", true},    {"amd-mi300x-8", "throttle", true},
      {"amd-mi300x-8", "mismatch", false}, {"none", "no-driver", false},
      {"gb10", "no-driver", true},         {"mixed-5", "ecc", true}};
  for (const Row& row : rows) {
    CAPTURE(row.machine);
    CAPTURE(row.fault);
    const auto machine = sim::load_machine(row.machine);
    REQUIRE(machine);
    const auto fault = sim::parse_fault(row.fault, 64);
    REQUIRE(fault);
    const auto checked = sim::check_effect(row.fault, *fault, *machine);
    CHECK(checked.has_value() == row.shown);
    if (!checked) CHECK(checked.error().id == "E0607");
  }
}
