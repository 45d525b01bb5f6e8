// Bytes as text in the files of recorded machines: quoted strings, hex and base64. Input is
// untrusted; malformed input yields nullopt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::doctor {

/// The bytes as "abc\x00", including the quotes.
[[nodiscard]] std::string in_quotes(std::string_view bytes);
/// The reverse of in_quotes(); `rest` is set to the text after the quotes.
[[nodiscard]] std::optional<std::string> unquoted(std::string_view text, std::string_view& rest);
/// "de 10".
[[nodiscard]] std::string hex(std::string_view bytes);
[[nodiscard]] std::optional<std::string> from_hex(std::string_view text);
[[nodiscard]] std::string base64(std::string_view bytes);
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);
/// An unsigned number of at most 15 digits.
[[nodiscard]] std::optional<std::uint64_t> size_in(std::string_view word, unsigned base);

}  // namespace berth::doctor
