// TcpDoor: the broker's API over TCP, for programs that cannot use its socket. It is off by
// default, listens only on loopback, and requires a token from a file that only the broker's user
// can read. So a caller with the token counts as that user, and the server takes over its
// connection. Each connection has one call. Requests that a web page could make a browser send
// (foreign Host, Origin) are rejected first.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace boost::asio {
class io_context;
}

namespace berth::serve {

class Server;

class TcpDoor {
 public:
  /// `address`: for example "127.0.0.1:8080" or "[::1]:8080". `server` must outlive the loop's run.
  /// Fails with kInvalidArgument (E0915: not a loopback address) and kUnavailable (E0916: cannot
  /// listen there).
  [[nodiscard]] static Result<std::unique_ptr<TcpDoor>> open(boost::asio::io_context& loop,
                                                             const std::string& address,
                                                             const std::string& token,
                                                             Server& server);
  TcpDoor(const TcpDoor&) = delete;
  TcpDoor& operator=(const TcpDoor&) = delete;
  ~TcpDoor();

  struct Parts;

 private:
  explicit TcpDoor(std::shared_ptr<Parts> parts);
  std::shared_ptr<Parts> parts_;
};

/// Whether a Host header has this port, and a name of this machine that no foreign domain can have.
[[nodiscard]] bool is_own_host(std::string_view host, unsigned port);

}  // namespace berth::serve
