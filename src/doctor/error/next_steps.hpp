// What to do about a known message that no finding explains.
#pragma once

#include <string_view>
#include <vector>

#include "model/diagnosis.hpp"

namespace berth::doctor {

/// Best first, translated; never empty. `rules`: the message is about the machine ("" or "DRV05 …")
/// or about a line in a file ("SRC34 …").
[[nodiscard]] std::vector<model::Fix> next_steps(std::string_view message, std::string_view rules);

}  // namespace berth::doctor
