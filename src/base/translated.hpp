// Translates sentences that another Berth program printed in English.
#pragma once

#include <string>
#include <string_view>

namespace berth {

/// If `said` is one of Berth's sentences, with its arguments filled in, returns it in the chosen
/// language. If not, returns it unchanged.
[[nodiscard]] std::string translated(std::string_view said);

}  // namespace berth
