// The token for the API over TCP. Only one user can read the token's file, so the token identifies
// this user.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::serve {

/// The path of the token.
[[nodiscard]] std::string token_file(const std::string& state_folder);
/// Reads the token, or creates it. Fails with kPermissionDenied (E0914: others can read it, or it
/// belongs to another user) and kUnavailable (E0914: it cannot be created or read, or is not a
/// token).
[[nodiscard]] Result<std::string> token_in(const std::string& file);
/// Compares two tokens. The time depends only on their length, not on where they differ.
[[nodiscard]] bool is_same_token(std::string_view said, std::string_view token);

}  // namespace berth::serve
