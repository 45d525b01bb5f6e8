// What another program of ours said in English, in the language of who reads it here.
#pragma once

#include <string>
#include <string_view>

namespace berth {

/// In the chosen language where it is one of our sentences, with its arguments in it; else as it
/// is.
[[nodiscard]] std::string translated(std::string_view said);

}  // namespace berth
