// Parses the target of a request line into a decoded path and query.
#pragma once

#include <string>
#include <string_view>

#include "serve/server.hpp"

namespace berth::serve {

/// "/v1/jobs/7?wait=ended" → path and query of the call; false if the encoding is invalid.
[[nodiscard]] bool take_target(std::string_view target, Call& call);

}  // namespace berth::serve
