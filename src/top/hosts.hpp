// Several machines in the live view: a table with a row for each, and the selected one below it.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "top/draw.hpp"

namespace berth::top {

struct HostState {
  std::string name;
  watch::FramePtr frame = {};  // nullptr: there is no current frame
  Series series = {};
  std::string problem = {};  // why there is no frame; "" if the first one is still expected
};

[[nodiscard]] std::vector<Line> draw_hosts(const std::vector<HostState>& hosts,
                                           std::size_t selected, const Settings& settings,
                                           int width, int height);

/// Handles a mouse click. A click on a row of the table selects that machine; other clicks are
/// handled by click().
void click_hosts(const std::vector<HostState>& hosts, std::size_t& selected, Settings& settings,
                 int width, int height, int x, int y);

}  // namespace berth::top
