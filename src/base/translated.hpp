// Translates what another Berth program wrote in English.
#pragma once

#include <string>
#include <string_view>

namespace berth {

/// The text in the chosen language if it is one of Berth's sentences, with its arguments filled in;
/// otherwise the text unchanged.
[[nodiscard]] std::string translated(std::string_view said);

}  // namespace berth
