// Keeps from the TOML reader what it cannot bear. toml++ 3.3 takes some characters beyond ASCII
// outside of strings and comments for impossible and then does anything; TOML has no such
// characters there, so they are an error before it sees them.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace berth::sim {

/// The line (from 1) of the first byte beyond ASCII that stands outside of strings and comments.
[[nodiscard]] std::optional<std::size_t> line_beyond_ascii(std::string_view toml);

}  // namespace berth::sim
