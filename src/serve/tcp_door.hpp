// TcpDoor: the broker's API over TCP, for programs that cannot use its socket. Off unless asked
// for, on loopback alone, and only for who has the token, a file that its user alone can read: so
// whoever knocks is that user, and is let through to the socket as such. One call a connection.
// What a web page could make a browser send (a foreign Host, an Origin) is refused before all else.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace boost::asio {
class io_context;
}

namespace berth::serve {

class TcpDoor {
 public:
  /// `address`: "127.0.0.1:8080", "[::1]:8080"; `socket`: where the server listens. Fails with
  /// kInvalidArgument (E0915: it is no address of loopback), kUnavailable (E0916: nobody can listen
  /// there).
  [[nodiscard]] static Result<std::unique_ptr<TcpDoor>> open(boost::asio::io_context& loop,
                                                             const std::string& address,
                                                             const std::string& token,
                                                             const std::string& socket);
  TcpDoor(const TcpDoor&) = delete;
  TcpDoor& operator=(const TcpDoor&) = delete;
  ~TcpDoor();

  struct Parts;

 private:
  explicit TcpDoor(std::shared_ptr<Parts> parts);
  std::shared_ptr<Parts> parts_;
};

/// Of a Host header: ours, at this port, by a name that no one else's domain can have.
[[nodiscard]] bool is_own_host(std::string_view host, unsigned port);

}  // namespace berth::serve
