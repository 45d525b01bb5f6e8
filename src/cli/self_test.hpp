// Runs the guard's self-test in a child process, for `berth guard check` and `berth k8s verify`.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.hpp"
#include "guard/self_test.hpp"

namespace berth::cli {

/// Runs the self-test for at most 60 s in a child process with the given variables. Fails with
/// kUnavailable (E0958) if the test could not use the driver.
[[nodiscard]] Result<guard::SelfTest> self_test_in_child(
    std::map<std::string, std::string> variables, std::uint64_t quota);
[[nodiscard]] bool all_hold(const guard::SelfTest& test);
/// A sentence about what the check with this id tests.
[[nodiscard]] std::string words_of_check(const std::string& id);

}  // namespace berth::cli
