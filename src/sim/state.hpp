// Converts a machine to the bytes that the simulated driver maps (wire/sim_state.hpp).
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "sim/machine.hpp"
#include "sim/options.hpp"
#include "wire/sim_state.hpp"

namespace berth::sim {

/// A process on a device. If `pid` is 0, the process has not been started yet.
struct Planned {
  std::uint32_t device = 0, partition = wire::sim::kNone;
  std::uint64_t memory_bytes = 0, swing_bytes = 0;
  std::uint32_t use = wire::sim::kCompute, activity = 0;
  bool foreign = false, ours = true;
  std::int64_t pid = 0;
  std::string command;
};

/// All processes, grouped by device: those of the machine file, `options.processes` more on each
/// device that is awake, and `options.attached`. Fails with kInvalidArgument (E0610) if a device
/// has too little memory for them.
[[nodiscard]] Result<std::vector<Planned>> plan_processes(const Machine& machine,
                                                          const Options& options);

/// The times at which the simulation started.
struct Clocks {
  std::int64_t monotonic_ns = 0, unix_us = 0;
};
[[nodiscard]] std::string build_state(const Machine& machine, const Options& options,
                                      const std::vector<Planned>& processes, const Clocks& clocks,
                                      std::uint32_t functions);

/// A UUID such as "GPU-6e4a…". It depends only on the machine's name and the device's number, so
/// every run gives the same UUID.
[[nodiscard]] std::string uuid_of(std::string_view prefix, std::string_view machine,
                                  std::uint64_t number);

}  // namespace berth::sim
