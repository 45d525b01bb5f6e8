// The live view of several machines: a table with one row per machine, and the selected machine
// below the table. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "top/draw.hpp"

namespace berth::top {

struct HostState {
  std::string name;
  watch::FramePtr frame = {};  // what the machine last reported; nullptr: nothing current
  Series series = {};
  std::string problem = {};  // why there is no frame; "" while the first frame is awaited
};

[[nodiscard]] std::vector<Line> draw_hosts(const std::vector<HostState>& hosts,
                                           std::size_t selected, const Settings& settings,
                                           int width, int height);

/// Handles a mouse click. A click on a row of the table selects that machine; other clicks are
/// handled by click().
void click_hosts(const std::vector<HostState>& hosts, std::size_t& selected, Settings& settings,
                 int width, int height, int x, int y);

}  // namespace berth::top
