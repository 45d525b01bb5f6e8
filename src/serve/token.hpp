// The token of the TCP door: who can read its file is its user, and nobody else can.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::serve {

/// Where the token is.
[[nodiscard]] std::string token_file(const std::string& state_folder);
/// What is in it; made where it is not there. Fails with kPermissionDenied (E0914: others can read
/// it, or it is another user's) and kUnavailable (E0914: it cannot be made or read, or is none).
[[nodiscard]] Result<std::string> token_in(const std::string& file);
/// Takes as long for a word that is nearly right as for any other of its length.
[[nodiscard]] bool is_same_token(std::string_view said, std::string_view token);

}  // namespace berth::serve
