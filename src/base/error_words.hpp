// The text of an errno in the reader's language. libc has other languages only if its catalogues
// are installed.
#pragma once

#include <string>

namespace berth {

/// "Permission denied"; "unknown error" for an unknown number.
[[nodiscard]] std::string error_words(int number);

}  // namespace berth
