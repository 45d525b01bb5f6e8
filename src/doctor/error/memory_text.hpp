// What PyTorch says with "CUDA out of memory", in one sentence with its own numbers.
#pragma once

#include <string>
#include <string_view>

namespace berth::doctor {

/// "" and 0: the text has no numbers.
struct MemoryText {
  std::string sentence;
  double asked_bytes = 0;  // that the program wanted at once
};

/// `text`: lower case, one blank between words, from the message on.
[[nodiscard]] MemoryText read_memory_text(std::string_view text);

}  // namespace berth::doctor
