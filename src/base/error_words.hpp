// What an errno says, in the reader's language: libc knows its own only, and only where its
// catalogues are installed.
#pragma once

#include <string>

namespace berth {

/// "Permission denied"; "unknown error" for what is none.
[[nodiscard]] std::string error_words(int number);

}  // namespace berth
