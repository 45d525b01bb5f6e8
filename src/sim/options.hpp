// The options of `berth sim` besides the machine: faults, attached processes, seed, time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sim/machine.hpp"
#include "wire/sim_state.hpp"

namespace berth::sim {

struct Fault {
  wire::sim::FaultKind kind = wire::sim::kLost;
  std::optional<std::uint32_t>
      device;  // nullopt: the fault is for all devices, or for the driver as a whole
  std::uint64_t from_ns = 0;
  std::uint64_t value = 0;
};

/// An existing process that is shown on a device.
struct Attached {
  std::int64_t pid = 0;
  std::uint32_t device = 0;
  std::uint64_t memory_bytes = 0;
};

struct Options {
  std::uint32_t processes = 0;
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> at_ns;  // if set, the simulation's time stands still at this value
  std::vector<Fault> faults;
  std::vector<Attached> attached;
};

/// Parses "KIND[:DEVICE][@SECONDS][=VALUE]". Fails with kInvalidArgument (E0607).
[[nodiscard]] Result<Fault> parse_fault(std::string_view given, std::size_t devices);
/// Fails with kInvalidArgument (E0607) if none of the affected devices can show the fault: a test
/// with such a fault would prove nothing. `given` is the text of the fault.
[[nodiscard]] Status check_effect(std::string_view given, const Fault& fault,
                                  const Machine& machine);
/// Parses "PID:DEVICE:SIZE". Fails with kInvalidArgument (E0608).
[[nodiscard]] Result<Attached> parse_attached(std::string_view given, std::size_t devices);
/// Converts "12", "12.5" or "12.5s" to nanoseconds. Fails with kInvalidArgument (E0609).
[[nodiscard]] Result<std::uint64_t> parse_seconds(std::string_view given);

}  // namespace berth::sim
