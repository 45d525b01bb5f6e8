// The text of an errno in the user's language. The C library translates these texts only if its own
// catalogues are installed.
#pragma once

#include <string>

namespace berth {

/// The text for an errno, such as "Permission denied". An unknown number gives "unknown error".
[[nodiscard]] std::string error_words(int number);

}  // namespace berth
