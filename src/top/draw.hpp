// The live view as lines of styled text, for any size of terminal. Pure.
#pragma once

#include <string>
#include <vector>

#include "top/keys.hpp"
#include "top/line.hpp"
#include "top/queue.hpp"
#include "top/series.hpp"
#include "watch/frame.hpp"

namespace berth::top {

/// Draws at most `height` lines (0: no limit) with at most `width` columns. If settings.shows_queue
/// is set, the queue is drawn instead of the processes.
[[nodiscard]] std::vector<Line> draw(const watch::Frame& frame, const Series& series,
                                     const Settings& settings, int width, int height,
                                     const Queue& queue = {});

/// Returns the process in the selected row; nullptr if no row is selected.
[[nodiscard]] const model::DeviceProcess* selected_process(const watch::Frame& frame,
                                                           const Settings& settings);

/// Handles a mouse click. A click on a row selects the row; a click on a column's heading sorts by
/// that column.
void click(const watch::Frame& frame, Settings& settings, int width, int height, int x, int y);

}  // namespace berth::top
