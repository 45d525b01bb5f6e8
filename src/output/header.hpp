// The first lines of `berth`, `berth ls` and other verbs: the machine, and a problem of its driver.
#pragma once

#include <string>

#include "model/snapshot.hpp"
#include "output/terminal.hpp"

namespace berth::output {

/// The header, such as "8 × NVIDIA H100 80GB HBM3    driver 580.95.05 (CUDA ≤ 13.0)    64 cores, 40
/// usable    1.9 TiB, 1.4 TiB free". It has several lines on a narrow terminal.
[[nodiscard]] std::string header(const model::Snapshot& snapshot, const Terminal& terminal);
/// A problem of the driver, with the command that fixes it; "" if there is none.
[[nodiscard]] std::string driver_problem(const model::Snapshot& snapshot, const Terminal& terminal);
/// A label such as "also", with text that is wrapped to the right of it.
[[nodiscard]] std::string labelled(std::string_view label, std::string_view says, int label_width,
                                   const Terminal& terminal, Style style = Style::kPlain);

}  // namespace berth::output
