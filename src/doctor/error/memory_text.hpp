// What PyTorch says with "CUDA out of memory", in one sentence with its own numbers.
#pragma once

#include <string>
#include <string_view>

namespace berth::doctor {

/// `text`: lower case, one blank between words, from the message on. "" where it has no numbers.
[[nodiscard]] std::string memory_sentence(std::string_view text);

}  // namespace berth::doctor
