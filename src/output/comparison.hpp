// The output of `berth compare`: for people, and as JSON (docs/json.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/comparison.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// "6.61 s"
[[nodiscard]] std::string show_seconds(double seconds);
/// The spread of the times: half of their range, in percent of the median, such as "±3 %". "-" for
/// a single run.
[[nodiscard]] std::string show_spread(const std::optional<model::Spread>& spread);
/// A ratio with two decimal places, or with none from 10 on: "1.92", "38".
[[nodiscard]] std::string show_ratio(double ratio);
/// A setting in words: "CPU, 4 threads", "1 GPU, NAME=value".
[[nodiscard]] std::string setting_words(const model::RunSetting& setting);
/// A sentence about how an output differs from that of the first setting, with the usual cause.
/// `check` must contain a difference.
[[nodiscard]] std::string difference_words(const model::OutputCheck& check);
/// The text of `berth compare`: a table, the verdict, and the command for the best setting.
[[nodiscard]] std::string comparison_text(const model::Comparison& comparison,
                                          const Terminal& terminal);
/// The sentences of the verdict: which setting is fastest, and whether the GPU is worth it.
[[nodiscard]] std::vector<std::string> verdict_sentences(const model::Comparison& comparison);
/// An SVG picture of the times of all settings, with the verdict.
[[nodiscard]] std::string comparison_svg(const model::Comparison& comparison);
/// The JSON document, on one line.
[[nodiscard]] std::string comparison_json(const model::Comparison& comparison);

}  // namespace berth::output
