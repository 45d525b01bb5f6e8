// SHA-256 (FIPS 180-4), HMAC (RFC 2104), and the texts in which digests are sent. Pure.
#pragma once

#include <string>
#include <string_view>

namespace berth {

/// 32 bytes.
[[nodiscard]] std::string sha256(std::string_view bytes);
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view bytes);
/// Lower case.
[[nodiscard]] std::string hex(std::string_view bytes);
[[nodiscard]] std::string base64(std::string_view bytes);
/// Percent-encodes a text for the query of a URL: every byte except letters, digits and "-._~"
/// becomes %XX.
[[nodiscard]] std::string percent_encoded(std::string_view bytes);

}  // namespace berth
