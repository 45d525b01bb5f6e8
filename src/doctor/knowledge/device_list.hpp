// Parses CUDA_VISIBLE_DEVICES as CUDA does. The rules for variables and those for source files
// share this parser. Commas separate the tokens, and the first invalid token ends the list. A token
// with a space before it is invalid; a trailing comma is harmless.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::doctor {

/// The tokens unchanged. A trailing comma does not add an empty token.
[[nodiscard]] std::vector<std::string_view> listed_devices(std::string_view list);
/// The number at the start of a token: "1gpu" is 1, as strtoul() reads it. nullopt if there is
/// none, or if it has too many digits for a GPU index.
[[nodiscard]] std::optional<std::size_t> listed_number(std::string_view token);
/// Whether the token begins with "GPU-" or "MIG-".
[[nodiscard]] bool names_device(std::string_view token);
/// Whether the list hides every GPU on purpose: "", "-1", "none", and the values that schedulers
/// set.
[[nodiscard]] bool hides_every_device(std::string_view list);
/// The list that the user probably meant, without spaces, empty tokens and duplicates: "0,2" for
/// "0, 2"; "" if no token remains.
[[nodiscard]] std::string plain_device_list(std::string_view list);

/// The list that the user probably meant with one token such as "0-3", "0;1;2;3" or "0 1 2 3":
/// "0,1,2,3". CUDA reads each of these tokens as 0, because it ignores what follows the first
/// number. Returns "" for a single number or other text.
[[nodiscard]] std::string several_in_one(std::string_view token);

}  // namespace berth::doctor
