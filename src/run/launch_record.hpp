// What a queued job is started with, as one JSON document: the journal keeps what its submitter
// asked for, because a broker may come and go meanwhile, and its keeper gets it whole, with what
// its devices add.
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
