// Translates the text of an errno. The C library has translations, too, but only if its own
// translation files are installed.
#pragma once

#include <string>

namespace berth {

/// The text for an errno, such as "Permission denied". An unknown number gives "unknown error".
[[nodiscard]] std::string error_words(int number);

}  // namespace berth
