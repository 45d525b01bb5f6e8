// One simulation from start to end: folder, driver, processes, the child, and the cleanup.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "sim/machine.hpp"
#include "sim/options.hpp"

namespace berth::sim {

struct Ended {
  int exit_code = 125;  // exit code of the command; 128+N if signal N ended it
  std::vector<std::pair<std::string, std::uint64_t>>
      calls;  // number of calls to each function of the driver, without functions that were not
              // called
  // For each device, the number of calls that would have woken it.
  std::vector<std::uint64_t> wakes;
};

/// Runs the command on the machine. Fails before anything is started with kInvalidArgument (E0610).
/// Other errors: kNotFound (E0614: no such command), kPermissionDenied (E0615: it cannot be run),
/// kUnavailable (E0611 … E0613, E0616).
[[nodiscard]] Result<Ended> run(const Machine& machine, const Options& options,
                                const std::vector<std::string>& command);

}  // namespace berth::sim
