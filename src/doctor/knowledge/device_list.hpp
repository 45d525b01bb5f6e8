// Parses CUDA_VISIBLE_DEVICES as CUDA does; shared by the rules for variables and for source files.
// Tokens are separated by commas, and the first invalid token ends the list. A space before a token
// makes it invalid; a trailing comma is harmless.
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
/// Whether the list intentionally hides every GPU: "", "-1", "none", and what schedulers write.
[[nodiscard]] bool hides_every_device(std::string_view list);
/// The intended list, without spaces, gaps and duplicates: "0, 2" becomes "0,2"; "" if nothing is
/// left.
[[nodiscard]] std::string plain_device_list(std::string_view list);

/// The list that a token such as "0-3", "0;1;2;3" or "0 1 2 3" is meant to be: "0,1,2,3". CUDA
/// reads these as 0, because it uses the number at the start of a token and ignores the rest.
/// Returns "" for a single number or anything else.
[[nodiscard]] std::string several_in_one(std::string_view token);

}  // namespace berth::doctor
