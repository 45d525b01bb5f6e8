// What `berth compare` prints: for people, and as JSON (docs/json.md).
#pragma once

#include <string>

#include "model/comparison.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// "CPU, 4 threads", "1 GPU, NAME=value".
[[nodiscard]] std::string setting_words(const model::RunSetting& setting);
/// A table, the verdict, and the command of the best setting.
[[nodiscard]] std::string comparison_text(const model::Comparison& comparison,
                                          const Terminal& terminal);
/// The sentences of the verdict: the fastest setting, and whether the GPU is worth it.
[[nodiscard]] std::vector<std::string> verdict_sentences(const model::Comparison& comparison);
/// One line.
[[nodiscard]] std::string comparison_json(const model::Comparison& comparison);

}  // namespace berth::output
