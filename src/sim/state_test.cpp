#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "sim/machine_check.hpp"
#include "sim/state.hpp"
#include "wire/sim_load.hpp"

namespace sim = berth::sim;
namespace wire = berth::wire::sim;

namespace {

struct Built {
  std::string bytes;
  wire::View view;
};

Built build(const std::string& name, const sim::Options& options) {
  auto machine = sim::load_machine(name);
  REQUIRE(machine);
  auto processes = sim::plan_processes(*machine, options);
  if (!processes) FAIL(processes.error().message);
  for (std::size_t i = 0; i < processes->size(); ++i)
    if ((*processes)[i].pid == 0) (*processes)[i].pid = static_cast<std::int64_t>(100 + i);
  Built built{sim::build_state(*machine, options, *processes, {}, 413), {}};
  const auto* state = reinterpret_cast<const wire::State*>(built.bytes.data());
  REQUIRE(wire::valid(state, built.bytes.size()));
  built.view = wire::View(state, nullptr);
  return built;
}

sim::Options with_processes(std::uint32_t n, std::uint64_t seed = 0) {
  sim::Options options;
  options.processes = n;
  options.seed = seed;
  return options;
}

}  // namespace

TEST_CASE("the same machine, seed and options are the same bytes") {
  const Built a = build("dgx-h100-8", with_processes(40, 7)),
              b = build("dgx-h100-8", with_processes(40, 7));
  CHECK(a.bytes == b.bytes);
  CHECK(build("dgx-h100-8", with_processes(40, 8)).bytes != a.bytes);
}

TEST_CASE("readings are the same at the same moment and move between moments") {
  const Built built = build("dgx-h100-8", with_processes(40));
  std::set<std::uint32_t> powers, loads;
  for (std::uint64_t second = 0; second < 60; ++second) {
    const wire::Moment a(built.view, 0, second * wire::kSecond),
        b(built.view, 0, second * wire::kSecond);
    CHECK(a.power() == b.power());
    CHECK(a.energy() == b.energy());
    powers.insert(a.power());
    loads.insert(a.utilization());
  }
  CHECK(powers.size() > 10);
  CHECK(loads.size() > 5);
}

TEST_CASE(
    "every reading stays within what the device can show, on every machine and at every time") {
  for (const sim::BuiltIn& machine : sim::built_in_machines()) {
    CAPTURE(machine.name);
    const Built built =
        build(std::string(machine.name),
              with_processes(machine.name == "none" || machine.name == "laptop-4060" ? 0 : 24));
    for (std::uint32_t i = 0; i < built.view.state().devices; ++i) {
      std::uint64_t energy = 0;
      for (std::uint64_t ms = 0; ms < 600'000; ms += 1777) {
        const wire::Moment at(built.view, i, ms * wire::kMillisecond);
        const wire::Device& d = at.device();
        REQUIRE(at.utilization() <= 100);
        REQUIRE(at.power() >= d.power_idle);
        REQUIRE(at.power() <= d.power_limit);
        REQUIRE(at.temperature() >= d.temperature_idle);
        REQUIRE(at.temperature() <= d.temperature_busy);
        REQUIRE(at.fan_percent() <= 100);
        REQUIRE(at.clock_graphics() <= d.clock_graphics_max);
        REQUIRE(at.clock_graphics() >= d.clock_graphics_idle);
        REQUIRE(at.memory_used() + d.memory_reserved <= d.memory_total);
        REQUIRE(at.energy() >= energy);
        energy = at.energy();
      }
    }
  }
}

TEST_CASE("energy is the sum of power, also across the end of the period") {
  const Built built = build("lab-4x3090", with_processes(8));
  for (const std::uint64_t from : {std::uint64_t{10}, std::uint64_t{250}, std::uint64_t{100'000}}) {
    const auto energy = [&](std::uint64_t second) {
      return wire::Moment(built.view, 0, second * wire::kSecond).energy();
    };
    std::uint64_t sum = 0;
    for (std::uint64_t second = from; second < from + 20; ++second)
      sum += wire::Moment(built.view, 0, second * wire::kSecond).power();
    CHECK(energy(from + 20) - energy(from) == sum);
  }
}

TEST_CASE(
    "shares of processes add up to no more than the device's load, and memory to what is used") {
  const Built built = build("hgx-h200-16", with_processes(500));
  CHECK(built.view.state().processes == 500);
  for (std::uint32_t i = 0; i < 16; ++i) {
    const wire::Moment at(built.view, i, 30 * wire::kSecond);
    std::uint32_t shares = 0;
    std::uint64_t memory = 0;
    at.for_processes([&](std::uint32_t p, const wire::Process& process) {
      shares += at.share_of(process);
      memory += at.process_memory(p);
    });
    CHECK(shares <= at.utilization());
    CHECK(memory == at.memory_used());
    CHECK(at.has_process());
  }
}

TEST_CASE("a device without users is idle, and one with users is not") {
  const Built rest = build("lab-4x3090", with_processes(0)),
              busy = build("lab-4x3090", with_processes(40));
  const wire::Moment idle(rest.view, 0, wire::kSecond), load(busy.view, 0, wire::kSecond);
  CHECK(idle.utilization() == 0);
  CHECK(idle.power() == idle.device().power_idle);
  CHECK(idle.performance_state() == 8);
  CHECK(idle.pcie_generation() == 1);
  CHECK(idle.throttle_reasons() == 1);
  CHECK(load.utilization() > 0);
  CHECK(load.power() > idle.power());
  CHECK(load.temperature() > idle.temperature());
  CHECK(load.performance_state() == 2);
  CHECK(load.throttle_reasons() == 0);
}

TEST_CASE("faults begin at their time and show in the readings") {
  sim::Options options = with_processes(8);
  for (const char* fault : {"throttle:0@10", "zombie:1@10=2GiB", "ecc@20"})
    options.faults.push_back(*sim::parse_fault(fault, 4));
  const Built built = build("lab-4x3090", options);
  const wire::Moment before(built.view, 0, 9 * wire::kSecond),
      after(built.view, 0, 11 * wire::kSecond);
  CHECK(before.throttle_reasons() != after.throttle_reasons());
  CHECK(after.temperature() == after.device().temperature_slowdown);
  CHECK(after.clock_graphics() < before.clock_graphics());
  const wire::Moment holds(built.view, 1, 11 * wire::kSecond);
  std::uint64_t known = 0;
  holds.for_processes(
      [&](std::uint32_t p, const wire::Process&) { known += holds.process_memory(p); });
  CHECK(holds.memory_used() - known == std::uint64_t{2} << 30U);
  CHECK(before.fault(wire::kEcc) == nullptr);
  CHECK(wire::Moment(built.view, 3, 20 * wire::kSecond).fault(wire::kEcc) != nullptr);
}

TEST_CASE("names and uuids depend on the machine alone") {
  const Built a = build("dgx-a100-mig", with_processes(0, 1)),
              b = build("dgx-a100-mig", with_processes(4, 2));
  std::set<std::string> uuids;
  for (std::uint32_t i = 0; i < 8; ++i) {
    CHECK(std::string(a.view.device(i).uuid) == b.view.device(i).uuid);
    uuids.insert(a.view.device(i).uuid);
  }
  for (std::uint32_t i = 0; i < a.view.state().partitions; ++i)
    uuids.insert(a.view.partition(i).uuid);
  CHECK(uuids.size() == 8 + 22);
  CHECK(std::string(a.view.device(0).uuid).size() == 40);
}

TEST_CASE("processes that do not fit are refused") {
  const auto machine = sim::load_machine("laptop-4060");
  sim::Options options;
  options.attached.push_back({1, 0, std::uint64_t{9} << 30U});
  const auto planned = sim::plan_processes(*machine, options);
  REQUIRE(!planned);
  CHECK(planned.error().id == "E0610");
  CHECK(planned.error().hint.starts_with("berth sim --attach 1:0:"));
  const std::string fits = planned.error().hint.substr(std::string("berth sim --attach ").size());
  options.attached = {*sim::parse_attached(fits, 1)};
  CHECK(sim::plan_processes(*machine, options));
  CHECK(sim::plan_processes(*sim::load_machine("none"), with_processes(1)).error().id == "E0610");
  CHECK(sim::plan_processes(*sim::load_machine("hgx-h200-16"), with_processes(5000)).error().id ==
        "E0610");
  CHECK(sim::plan_processes(*sim::load_machine("driver-470"), with_processes(4000)).has_value());
}

TEST_CASE("a state with wrong sizes is invalid") {
  const Built built = build("lab-4x3090", with_processes(3));
  const auto broken = [&](auto change) {
    std::string bytes = built.bytes;
    wire::State state;
    std::memcpy(&state, bytes.data(), sizeof(state));
    change(state);
    std::memcpy(bytes.data(), &state, sizeof(state));
    return !wire::valid(reinterpret_cast<const wire::State*>(bytes.data()), bytes.size());
  };
  CHECK(broken([](wire::State& s) { s.magic = 0; }));
  CHECK(broken([](wire::State& s) { s.version = wire::kVersion + 1; }));
  CHECK(broken([](wire::State& s) { s.total_bytes += 8; }));
  CHECK(broken([](wire::State& s) { s.devices = 65; }));
  CHECK(broken([](wire::State& s) { s.processes += 1000; }));
  CHECK(broken([](wire::State& s) { s.processes_at = 0xfffffff8; }));
  CHECK(broken([](wire::State& s) { s.faults_at += 4; }));
}
