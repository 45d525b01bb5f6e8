#include "serve/tcp_address.hpp"

#include <charconv>
#include <string>

namespace berth::serve {

std::optional<boost::asio::ip::tcp::endpoint> endpoint_of(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(colon + 1);
  std::string host(text.substr(0, colon));
  unsigned port = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size()) return std::nullopt;
  if (port == 0 || port > 65535) return std::nullopt;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  boost::system::error_code problem;
  const auto address = boost::asio::ip::make_address(host, problem);
  if (problem) return std::nullopt;
  return boost::asio::ip::tcp::endpoint(address, static_cast<unsigned short>(port));
}

}  // namespace berth::serve
