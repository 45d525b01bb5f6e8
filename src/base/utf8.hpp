#pragma once

#include <string_view>

namespace berth {

/// Whether all of `bytes` is valid UTF-8 (RFC 3629).
[[nodiscard]] bool is_utf8(std::string_view bytes);

}  // namespace berth
