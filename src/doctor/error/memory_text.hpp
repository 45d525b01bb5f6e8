// Summarizes PyTorch's "CUDA out of memory" message in one sentence with its numbers.
#pragma once

#include <string>
#include <string_view>

namespace berth::doctor {

/// "" and 0: the text has no numbers.
struct MemoryText {
  std::string sentence;
  double asked_bytes = 0;  // memory that the program requested in one call
};

/// `text`: lower case, single spaces between words, starting at the message.
[[nodiscard]] MemoryText read_memory_text(std::string_view text);

}  // namespace berth::doctor
