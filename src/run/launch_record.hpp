// What a queued job is started with, as bytes: the journal keeps what its submitter asked for,
// because a broker may come and go meanwhile, and its keeper gets it whole, with what its devices
// add. Words that end with a NUL, which no word can have: words and variables are bytes, and JSON
// would have to take a thousand of them apart for each start.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "run/launch.hpp"

namespace berth::run {

[[nodiscard]] std::string record_of(const Launch& launch);
/// Fails with kUnavailable (E0517) where it is none.
[[nodiscard]] Result<Launch> launch_in(std::string_view record);

}  // namespace berth::run
