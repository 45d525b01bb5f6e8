// Parses an address to listen on: "127.0.0.1:8642", "[::1]:8642".
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <optional>
#include <string_view>

namespace berth::serve {

/// nullopt if it is not a numeric address with a port from 1 to 65535.
[[nodiscard]] std::optional<boost::asio::ip::tcp::endpoint> endpoint_of(std::string_view text);

}  // namespace berth::serve
