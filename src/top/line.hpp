// A line of the live view.
#pragma once

#include <string>
#include <vector>

#include "output/terminal.hpp"

namespace berth::top {

struct Span {
  output::Style style = output::Style::kPlain;
  std::string text;
  bool operator==(const Span&) const = default;
};
using Line = std::vector<Span>;

}  // namespace berth::top
