// Reads the files that a guarded job and `berth run` share. Other processes write these files at
// the same time, and the job may have written anything into the file with its counters.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "wire/guard.hpp"

namespace berth::guard {

/// Reads `bytes` bytes that start at offset `from`. False if the file ends before that or cannot be
/// read.
[[nodiscard]] bool read_part(int file, void* into, std::size_t bytes, std::size_t from = 0);
/// The limits in a job's folder; nullopt if they cannot be read or contain no device.
[[nodiscard]] std::optional<::berth::wire::guard::Limits> limits_in(const std::string& folder);
/// A copy of the counters in a job's folder. Processes that have ended are marked in the copy.
/// nullptr: the counters cannot be read.
[[nodiscard]] std::unique_ptr<::berth::wire::guard::Usage> usage_in(const std::string& folder);

}  // namespace berth::guard
