// The guard's self-test: a process that has the guard asks this machine's driver for memory in
// every way, and says what was limited.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::guard {

struct SelfTest {
  struct Check {
    std::string id;             // "total", "cuMemAlloc_v2", "path cuGetProcAddress", …
    std::optional<bool> holds;  // nullopt: the driver lacks it
  };
  std::vector<Check> checks;
  std::vector<std::string> unknown;  // functions that may take memory and that Berth does not know
  int error = 0;                     // of the driver, if it could not be used
  std::string step;                  // the call that failed
};

/// Runs the test in this process, which was started with the guard and `quota` bytes of the first
/// device. Writes lines for read_self_test() to the descriptor.
void run_self_test(std::uint64_t quota, int out);
/// What it wrote; checks that are missing, because it crashed, are not in the result.
[[nodiscard]] SelfTest read_self_test(std::string_view lines);

}  // namespace berth::guard
