// The guard's self-test. A process that has the guard requests memory from this machine's driver in
// every way, and reports which requests were limited.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::guard {

struct SelfTest {
  struct Check {
    // name of the check: "total", "cuMemAlloc_v2", "path cuGetProcAddress", …
    std::string id;
    // whether the check passed; nullopt: the driver does not have the function
    std::optional<bool> holds;
  };
  std::vector<Check> checks;
  // driver functions that may allocate memory and that Berth does not know
  std::vector<std::string> unknown;
  // the driver's error code if the driver could not be used; else 0
  int error = 0;
  std::string step;  // the call that failed
};

/// Runs the test in this process, which was started with the guard and `quota` bytes of the first
/// device. Writes lines for read_self_test() to the descriptor.
void run_self_test(std::uint64_t quota, int out);
/// Reads what run_self_test() wrote. If the test crashed, the missing checks are not in the result.
[[nodiscard]] SelfTest read_self_test(std::string_view lines);

}  // namespace berth::guard
