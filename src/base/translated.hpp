// Translates what another Berth program wrote in English.
#pragma once

#include <string>
#include <string_view>

namespace berth {

/// In the chosen language if it is one of our sentences, with its arguments filled in; otherwise
/// unchanged.
[[nodiscard]] std::string translated(std::string_view said);

}  // namespace berth
