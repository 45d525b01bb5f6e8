// "Did you mean": the known word nearest to one that is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth {

/// By edit distance; "" where none is near.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace berth
