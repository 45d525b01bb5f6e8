// What a call is for, out of the line that asks: a path and a query, decoded.
#pragma once

#include <string>
#include <string_view>

#include "serve/server.hpp"

namespace berth::serve {

/// "/v1/jobs/7?wait=ended" → path and query of the call; false where the path is not written so.
[[nodiscard]] bool take_target(std::string_view target, Call& call);

}  // namespace berth::serve
