// The text of an errno in the user's language. The C library translates these texts only if its own
// catalogues are installed.
#pragma once

#include <string>

namespace berth {

/// "Permission denied"; "unknown error" for an unknown number.
[[nodiscard]] std::string error_words(int number);

}  // namespace berth
