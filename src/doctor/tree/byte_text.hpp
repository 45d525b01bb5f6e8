// Converts bytes to text in the files of recorded machines, and back: quoted strings, hex and
// base64. The text is untrusted; the result for malformed text is nullopt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::doctor {

/// The bytes as a quoted string with escapes: "abc\x00".
[[nodiscard]] std::string in_quotes(std::string_view bytes);
/// Reverses in_quotes() at the start of `text`. `rest` becomes the text after the closing quote.
[[nodiscard]] std::optional<std::string> unquoted(std::string_view text, std::string_view& rest);
/// The bytes as pairs of hex digits: "de 10".
[[nodiscard]] std::string hex(std::string_view bytes);
[[nodiscard]] std::optional<std::string> from_hex(std::string_view text);
[[nodiscard]] std::string base64(std::string_view bytes);
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);
/// Parses an unsigned number of at most 15 digits.
[[nodiscard]] std::optional<std::uint64_t> size_in(std::string_view word, unsigned base);

}  // namespace berth::doctor
