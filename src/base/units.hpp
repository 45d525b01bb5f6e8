// Parses and prints sizes, shares and durations (docs/units.md). K, M, G, T and KiB, MiB, GiB, TiB
// are powers of 1024; KB, MB, GB, TB are powers of 1000. A size or duration without a unit is an
// error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth {

/// "8GiB" → 8589934592. Fails with kInvalidArgument (E0101).
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view given);
/// Parses "30%" or "0.3" as 0.3. The share must be above 0 and at most 1. Fails with
/// kInvalidArgument (E0102).
[[nodiscard]] Result<double> parse_share(std::string_view given);
/// Prints a share that is given in thousandths: 305 → "30.5 %".
[[nodiscard]] std::string show_share(int permille);
/// Parses "500ms", "10s", "5m", "2h". Fails with kInvalidArgument (E0103).
[[nodiscard]] Result<std::chrono::milliseconds> parse_duration(std::string_view given);
/// A decimal integer within the given range, with no other characters. Fails with kInvalidArgument
/// (E0104).
[[nodiscard]] Result<std::int64_t> parse_integer(std::string_view given, std::int64_t least,
                                                 std::int64_t most);

/// A size for people: "61.2 GiB", "312 MiB", "17 KiB". Binary units, three significant digits, a
/// space before the unit.
[[nodiscard]] std::string show_bytes(std::uint64_t bytes);
/// A duration for people: "2 h 14 m", "3 m 41 s", "12.4 s", "80 ms".
[[nodiscard]] std::string show_duration(std::chrono::milliseconds duration);
/// A power for people, from milliwatts: "612 W", "8.4 W".
[[nodiscard]] std::string show_power(std::uint64_t milliwatts);

}  // namespace berth
