// The files of the web page, from dashboard/. They contain no data, so they need no token.
#pragma once

#include <optional>
#include <string_view>

#include "serve/server.hpp"

namespace berth::serve {

[[nodiscard]] bool is_page(std::string_view path);
/// nullopt: not a file of the page.
[[nodiscard]] std::optional<Reply> page_reply(std::string_view path);

}  // namespace berth::serve
