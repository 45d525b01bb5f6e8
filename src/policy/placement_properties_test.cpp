// Properties that hold on every machine, tested on random machines with fixed seeds.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <sstream>

#include "base/units.hpp"
#include "policy/machines_for_tests.hpp"
#include "policy/placement.hpp"
#include "policy/visible.hpp"

using berth::Result;
using berth::model::Placement;
using berth::model::Request;
using berth::policy::place;
using namespace berth::policy::machines;

namespace {

std::string shown(const Result<Placement>& placement) {
  if (!placement) return placement.error().id;
  std::string out;
  for (std::size_t i = 0; i < placement->devices.size(); ++i)
    out += std::to_string(placement->devices[i]) + ":" + placement->partitions[i] + ",";
  return out;
}

Snapshot random_machine(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const std::array<Health, 6> healths{Health::kOk,   Health::kOk,     Health::kDegraded,
                                      Health::kLost, Health::kAsleep, Health::kNoAnswer};
  std::vector<Device> devices;
  for (int i = below(9); i > 0; --i) {
    Device device =
        gpu(below(4) == 0 ? Vendor::kAmd : Vendor::kNvidia, below(3) == 0 ? "A" : "B", 24);
    device.health = healths[static_cast<std::size_t>(below(6))];
    if (below(8) == 0) device.compute_mode = "prohibited";
    if (below(8) == 0) device.compute_mode = "exclusive process";
    if (below(6) == 0)
      device = with_mig(device, {5, 10}, std::string(1, static_cast<char>('a' + i)));
    devices.push_back(device);
  }
  Snapshot s = machine(std::move(devices), 1 + below(2));
  const int count = static_cast<int>(s.devices.size()) - 1;
  for (int i = 0; count > 0 && i < below(6); ++i)
    use(s, below(count), static_cast<std::uint64_t>(below(6)), below(3) != 0);
  return s;
}

Request random_request(std::mt19937& random) {
  Request request;
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  if (below(2) == 0) request.gpus = below(4);
  if (below(3) == 0 && request.gpus != 0)
    request.memory_bytes = static_cast<std::uint64_t>(1 + below(30)) * kGiB;
  if (below(3) == 0)
    request.inherited_cuda = std::to_string(below(6)) + "," + std::to_string(below(6));
  if (below(6) == 0) request.inherited_rocr = std::to_string(below(3));
  if (below(3) == 0) request.cpus = 1 + below(8);
  return request;
}

}  // namespace

TEST_CASE("on any machine a placement keeps its promises") {
  std::mt19937 random(20261120);
  int placed = 0;
  for (int round = 0; round < 4000; ++round) {
    const Snapshot s = random_machine(random);
    const Request request = random_request(random);
    const auto placement = place(request, s);
    const auto visible = berth::policy::inherited_visibility(request, s);
    CAPTURE(round);
    if (!placement) {
      CHECK_FALSE(placement.error().hint.empty());
      CHECK(placement.error().id.substr(0, 3) == "E04");
      continue;
    }
    ++placed;
    CHECK_FALSE(placement->reasons.empty());
    CHECK(placement->threads >= 1);
    CHECK(placement->threads <= s.host.cpu.cores_usable);
    CHECK(placement->devices.size() == placement->partitions.size());
    if (request.gpus) CHECK(static_cast<int>(placement->devices.size()) == *request.gpus);
    for (std::size_t i = 0; i < placement->devices.size(); ++i) {
      const Device& device = s.devices[static_cast<std::size_t>(placement->devices[i])];
      CHECK(device.health != Health::kLost);
      CHECK(device.health != Health::kNoAnswer);
      CHECK(device.compute_mode != "prohibited");
      CHECK(device.vendor == s.devices[static_cast<std::size_t>(placement->devices[0])].vendor);
      CHECK(visible.allows(device.index, placement->partitions[i]));
      CHECK(device.mig_enabled.value_or(false) == !placement->partitions[i].empty());
      if (request.gpus && !request.memory_bytes && placement->partitions[i].empty())
        CHECK_FALSE(berth::policy::busy(device, s));
    }
  }
  CHECK(placed > 1000);
}

namespace {

/// Parses the commands in a hint, and returns their requests, with the variables of `from`.
std::vector<Request> commands_of(const std::string& hint, const Request& from) {
  std::vector<Request> commands;
  Request base;
  base.inherited_cuda = from.inherited_cuda;
  base.inherited_rocr = from.inherited_rocr;
  std::istringstream words(hint);
  std::string word;
  while (words >> word) {
    Request request = base;
    if (word == "--gpus" && words >> word) request.gpus = std::stoi(word);
    if (word == "--memory" && words >> word) request.memory_bytes = *berth::parse_size(word);
    if (word == "--cpu") request.gpus = 0;
    if (request.gpus || request.memory_bytes) commands.push_back(request);
  }
  return commands;
}

}  // namespace

TEST_CASE("every hinted command would work now, or wait if too many devices are requested") {
  std::mt19937 random(412);
  int tried = 0;
  for (int round = 0; round < 3000; ++round) {
    const Snapshot s = random_machine(random);
    const Request request = random_request(random);
    const auto placement = place(request, s);
    if (placement) continue;
    for (const Request& command : commands_of(placement.error().hint, request)) {
      CAPTURE(round);
      CAPTURE(placement.error().hint);
      const auto place_of = place(command, s);
      const bool may_wait = placement.error().id == "E0411";
      CHECK((place_of || (may_wait && place_of.error().id == "E0412")));
      ++tried;
    }
  }
  CHECK(tried > 300);
}

TEST_CASE("the order of the lists in a snapshot does not matter") {
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) {
    const Snapshot s = random_machine(random);
    const Request request = random_request(random);
    Snapshot other = s;
    std::shuffle(other.devices.begin(), other.devices.end(), random);
    std::shuffle(other.processes.begin(), other.processes.end(), random);
    for (Device& d : other.devices) std::shuffle(d.partitions.begin(), d.partitions.end(), random);
    const auto one = place(request, s);
    const auto two = place(request, other);
    CAPTURE(round);
    CHECK(shown(one) == shown(two));
    if (one && two) CHECK(one->cpus == two->cpus);
    if (one && two) CHECK(one->threads == two->threads);
    if (!one && !two) CHECK(one.error().hint == two.error().hint);
  }
}
