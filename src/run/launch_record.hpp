// A queued job's Launch as bytes. The journal stores what its submitter requested, because the
// broker may restart before the job starts. The keeper gets these values and those for the job's
// devices. The format is NUL-terminated words, since no word contains NUL. JSON would be too slow:
// words and variables are bytes, not UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "run/launch.hpp"

namespace berth::run {

[[nodiscard]] std::string record_of(const Launch& launch);
/// Fails with kUnavailable (E0517) if it is not a valid record.
[[nodiscard]] Result<Launch> launch_in(std::string_view record);

}  // namespace berth::run
