// Parses CUDA_VISIBLE_DEVICES as CUDA does: commas separate the tokens, and the first invalid token
// ends the list. A token with a space before it is invalid; a trailing comma is harmless.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::doctor {

/// The tokens unchanged. A trailing comma does not add an empty token.
[[nodiscard]] std::vector<std::string_view> listed_devices(std::string_view list);
/// The number at the start of a token: 1 for "1gpu", as with strtoul(). nullopt if the token does
/// not start with a digit, or if the number has too many digits for a GPU index.
[[nodiscard]] std::optional<std::size_t> listed_number(std::string_view token);
/// Whether the token begins with "GPU-" or "MIG-".
[[nodiscard]] bool names_device(std::string_view token);
/// Whether the list hides every GPU on purpose: "", "-1", "none", and the values that schedulers
/// set.
[[nodiscard]] bool hides_every_device(std::string_view list);
/// The list without spaces, empty tokens and duplicates, which the user probably meant: "0,2" for
/// "0, 2". Returns "" if no token remains.
[[nodiscard]] std::string plain_device_list(std::string_view list);

/// Corrects one token that the user probably meant as a list: "0,1,2,3" for "0-3", "0;1;2;3" or "0
/// 1 2 3". CUDA reads each of these tokens as 0, because it ignores what follows the first number.
/// Returns "" for a single number or other text.
[[nodiscard]] std::string several_in_one(std::string_view token);

}  // namespace berth::doctor
