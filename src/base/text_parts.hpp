// Splits texts into words, lines and numbers, and makes foreign text safe to print. Pure.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth {

[[nodiscard]] std::string_view trim(std::string_view text);
/// Splits at every `separator` and keeps empty parts.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
/// Deleted, because the parts would point into a destroyed temporary, for example in a range-for.
template <std::same_as<std::string> Temporary>
std::vector<std::string_view> split(Temporary&& text, char separator) = delete;
/// Splits a Slurm list at commas outside brackets, without empty parts: "n[1-2,4],m" → "n[1-2,4]"
/// and "m".
[[nodiscard]] std::vector<std::string_view> split_outside_brackets(std::string_view list);
/// `text` as a decimal or 0x… number; nullopt if it contains anything else.
[[nodiscard]] std::optional<std::int64_t> to_number(std::string_view text);
/// Replaces invalid UTF-8 and control characters with U+FFFD. Call it on text from other processes
/// before printing the text or writing it into a JSON document.
[[nodiscard]] std::string printable(std::string_view bytes);
/// Whether all of `bytes` is valid UTF-8 (RFC 3629).
[[nodiscard]] bool is_utf8(std::string_view bytes);

}  // namespace berth
