#pragma once

#include <string_view>

namespace berth {

/// All of it (RFC 3629).
[[nodiscard]] bool is_utf8(std::string_view bytes);

}  // namespace berth
