// The client can use the API's description of a machine: it places a job and sets its environment
// without reading the devices itself.
#include <doctest/doctest.h>

#include "client/machine.hpp"
#include "output/json.hpp"
#include "policy/machines_for_tests.hpp"
#include "policy/placement.hpp"

using namespace berth;
using namespace berth::policy;

TEST_CASE("a machine told by the broker is the machine for placements") {
  auto machine = machines::machine(
      {machines::gpu(model::Vendor::kNvidia, "NVIDIA H100", 80),
       machines::with_mig(machines::gpu(model::Vendor::kNvidia, "NVIDIA A100", 80), {40, 20}, "a"),
       machines::gpu(model::Vendor::kAmd, "AMD Instinct MI300X", 192)},
      2);
  machine.devices[0].vendor_index = 1;
  machine.devices[0].minor_number = 4;
  machine.devices[0].readings.utilization_percent = 12.5;
  machine.devices[2].health = model::Health::kDegraded;
  machine.devices[2].kernel_driver = "amdgpu";
  machine.driver.state = "ok";
  machine.driver.version = "580.95.05";
  machine.driver.cuda_version = "13.0";
  const auto told = client::machine_in({200, output::ls_json(machine)});
  REQUIRE(told);
  auto again = *told;
  again.host = machine.host;
  CHECK(again.driver.version == "580.95.05");
  REQUIRE(again.devices.size() == machine.devices.size());
  // Both machines give the same text.
  CHECK(output::ls_json(again).substr(output::ls_json(again).find("\"driver\"")) ==
        output::ls_json(machine).substr(output::ls_json(machine).find("\"driver\"")));
  for (const std::string& unit : {machine.devices[0].uuid, machine.devices[1].partitions[1].uuid,
                                  machine.devices[2].pci_address}) {
    const auto here = place_leased({}, {unit}, "", machine);
    const auto there = place_leased({}, {unit}, "", again);
    REQUIRE((here && there));
    CHECK(here->devices == there->devices);
    CHECK(here->partitions == there->partitions);
  }
}

TEST_CASE("the answer names users of busy GPUs, but no command lines") {
  auto machine = machines::machine({machines::gpu(model::Vendor::kNvidia, "NVIDIA H100", 80)}, 2);
  model::DeviceProcess process;
  process.device = machine.devices[0].index;
  process.pid = process.host_pid = 4711;
  process.user = "lin";
  process.command = "python secret.py";
  process.kind.compute = true;
  process.memory_bytes = std::uint64_t{5} << 30U;
  machine.processes.push_back(process);
  const std::string told = output::machine_json(machine);
  CHECK(told.find("secret") == std::string::npos);
  auto again = client::machine_in({200, told});
  REQUIRE(again);
  again->host = machine.host;
  model::Request one;
  one.gpus = 1;
  machine.processes[0].command.clear();
  const auto here = place(one, machine), there = place(one, *again);
  REQUIRE((!here && !there));
  CHECK(here.error().message == there.error().message);
  CHECK(there.error().message.find("lin (pid 4711)") != std::string::npos);
}

TEST_CASE("an answer that is not a machine is an error") {
  for (const char* body :
       {"", "{}", "[]", R"({"devices":3,"driver":{}})", R"({"devices":[4],"driver":{}})",
        R"({"devices":[{"index":"x"}],"driver":{}})",
        R"({"devices":[{"index":1e300}],"driver":{}})"})
    CHECK(!client::machine_in({200, body}));
  CHECK(client::machine_in({200, R"({"devices":[{"kind":"of tomorrow"}],"driver":{},"more":1})"}));
}
