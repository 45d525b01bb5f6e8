// The memory that CUDA itself takes on a device for one process (context, kernels), as measured in
// earlier jobs of this user. It is stored in the state folder for each device and driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace berth::guard {

/// The smallest memory of a context that was measured with this driver; nullopt if nothing was
/// measured.
[[nodiscard]] std::optional<std::uint64_t> context_cost(const std::string& uuid,
                                                        const std::string& driver);
/// Stores the value if it is less than the stored one. Failures are ignored, because the next job
/// measures it again.
void remember_context_cost(const std::string& uuid, const std::string& driver, std::uint64_t bytes);

}  // namespace berth::guard
