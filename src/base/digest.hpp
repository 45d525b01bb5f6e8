// SHA-256 (FIPS 180-4), HMAC (RFC 2104), and text encodings of digests. Functions without side
// effects.
#pragma once

#include <string>
#include <string_view>

namespace berth {

/// The SHA-256 digest of `bytes`: 32 bytes, not hexadecimal text.
[[nodiscard]] std::string sha256(std::string_view bytes);
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view bytes);
/// `bytes` as lower-case hexadecimal digits.
[[nodiscard]] std::string hex(std::string_view bytes);
[[nodiscard]] std::string base64(std::string_view bytes);
/// Percent-encodes a text for the query of a URL: every byte except letters, digits and "-._~"
/// becomes %XX.
[[nodiscard]] std::string percent_encoded(std::string_view bytes);

}  // namespace berth
