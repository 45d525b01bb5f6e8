// The files of the web page, from dashboard/. They contain no data, so they need no token.
#pragma once

#include <optional>
#include <string_view>

#include "serve/server.hpp"

namespace berth::serve {

[[nodiscard]] bool is_page(std::string_view path);
/// The answer with a file of the web page; nullopt if the path is not one of its files.
[[nodiscard]] std::optional<Reply> page_reply(std::string_view path);

}  // namespace berth::serve
