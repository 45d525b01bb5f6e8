// What CUDA itself takes of a device for one process (context, kernels), as earlier jobs of this
// user showed. Kept in the state folder, for each device and driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace berth::guard {

/// The least that was seen; nullopt: nothing was seen with this driver.
[[nodiscard]] std::optional<std::uint64_t> context_cost(const std::string& uuid,
                                                        const std::string& driver);
/// Keeps it if it is less than what is known. Failures are ignored: the next job sees it again.
void remember_context_cost(const std::string& uuid, const std::string& driver, std::uint64_t bytes);

}  // namespace berth::guard
