#include "simulator/simulated.hpp"

#include <algorithm>

#include "base/file.hpp"

namespace wire = berth::wire::sim;

void Simulated::write_files(const berth::sim::Machine& machine,
                            const berth::sim::Options& options) {
  auto processes = berth::sim::plan_processes(machine, options);
  REQUIRE(processes);
  for (std::size_t i = 0; i < processes->size(); ++i)
    if ((*processes)[i].pid == 0) (*processes)[i].pid = static_cast<std::int64_t>(1000 + i);
  const auto functions = static_cast<std::uint32_t>(berth::sim::driver_functions().size());
  const std::string state =
      berth::sim::build_state(machine, options, *processes, {0, 1'000'000}, functions);
  REQUIRE(folder_.write("state", state));
  const auto devices = static_cast<std::uint32_t>(berth::sim::device_count(machine));
  const auto users = static_cast<std::uint32_t>(processes->size());
  const wire::Shared header{wire::kSharedMagic, wire::kVersion, functions, devices, users};
  std::string shared(wire::shared_bytes(functions, devices, users), '\0');
  std::memcpy(shared.data(), &header, sizeof(header));
  REQUIRE(folder_.write("shared", shared));
}

std::uint64_t Simulated::word(std::size_t index) const {
  const auto bytes = berth::slurp(folder_.path() + "/shared");
  REQUIRE(bytes);
  std::uint64_t value = 0;
  std::memcpy(&value, bytes->data() + sizeof(wire::Shared) + 8 * index, sizeof(value));
  return value;
}

std::uint64_t Simulated::calls(const std::string& name) const {
  const auto names = berth::sim::driver_functions();
  const auto found = std::find(names.begin(), names.end(), name);
  REQUIRE(found != names.end());
  return word(static_cast<std::size_t>(found - names.begin()));
}

std::uint64_t Simulated::wakes(std::uint32_t device) const {
  return word(berth::sim::driver_functions().size() + device);
}
