// The first lines of the screens: what machine this is, and what is wrong with its driver.
#pragma once

#include <string>

#include "model/snapshot.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// "8 × NVIDIA H100 80GB HBM3    driver 580.95.05 (CUDA ≤ 13.0)    64 cores, 40 usable    1.9
/// TiB, 1.4 TiB free"; more lines where the terminal is narrow.
[[nodiscard]] std::string header(const model::Snapshot& snapshot, const Terminal& terminal);
/// What the driver complains of, with what mends it; "" where all is well.
[[nodiscard]] std::string driver_problem(const model::Snapshot& snapshot, const Terminal& terminal);
/// A label, and text wrapped beside it: "also   …".
[[nodiscard]] std::string labelled(std::string_view label, std::string_view says, int label_width,
                                   const Terminal& terminal, Style style = Style::kPlain);

}  // namespace berth::output
