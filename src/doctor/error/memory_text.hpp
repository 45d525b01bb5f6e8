// Summarizes PyTorch's "CUDA out of memory" message in one sentence with its numbers.
#pragma once

#include <string>
#include <string_view>

namespace berth::doctor {

/// If the message has no numbers, `sentence` is "" and `asked_bytes` is 0.
struct MemoryText {
  std::string sentence;
  double asked_bytes = 0;  // memory that the program requested in one call
};

/// `text` starts at the message, in lower case with single spaces.
[[nodiscard]] MemoryText read_memory_text(std::string_view text);

}  // namespace berth::doctor
