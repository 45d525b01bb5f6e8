// CUDA_VISIBLE_DEVICES as CUDA reads it, one reading for the rules about variables and for those
// about files: tokens between commas, up to the first that names nothing. A blank before a token
// makes it name nothing; a comma at the end takes nothing away.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::doctor {

/// As they stand; without the empty one behind a last comma.
[[nodiscard]] std::vector<std::string_view> listed_devices(std::string_view list);
/// The number that a token begins with ("1gpu" is 1, as strtoul reads it); nullopt: none, or more
/// digits than any machine has GPUs.
[[nodiscard]] std::optional<std::size_t> listed_number(std::string_view token);
/// It begins "GPU-" or "MIG-".
[[nodiscard]] bool names_device(std::string_view token);
/// The list hides every GPU, and on purpose: "", "-1", "none" and what schedulers write.
[[nodiscard]] bool hides_every_device(std::string_view list);
/// The numbers and names as whoever wrote them meant them: without blanks, gaps, and what stands
/// twice. "0, 2" is "0,2"; "" where nothing is left.
[[nodiscard]] std::string plain_device_list(std::string_view list);

/// "0,1,2,3" of "0-3", "0;1;2;3" or "0 1 2 3", which CUDA reads as 0: it takes the number that a
/// token begins with, and drops the rest. "" it is one number, or something else.
[[nodiscard]] std::string several_in_one(std::string_view token);

}  // namespace berth::doctor
