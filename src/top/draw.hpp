// The live view as lines of styled text, for any size of terminal. Pure.
#pragma once

#include <string>
#include <vector>

#include "output/terminal.hpp"
#include "top/keys.hpp"
#include "top/series.hpp"
#include "watch/frame.hpp"

namespace berth::top {

struct Span {
  output::Style style = output::Style::kPlain;
  std::string text;
};
using Line = std::vector<Span>;

/// Draws at most `height` lines (0: no limit) with at most `width` columns.
[[nodiscard]] std::vector<Line> draw(const watch::Frame& frame, const Series& series,
                                     const Settings& settings, int width, int height);

/// The process of the selected row; nullptr if none is selected.
[[nodiscard]] const model::DeviceProcess* selected_process(const watch::Frame& frame,
                                                           const Settings& settings);

}  // namespace berth::top
