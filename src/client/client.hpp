// Client: one connection to a broker, and calls over it, one after the other.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::client {

struct Response {
  int status = 0;
  std::string body;  // JSON
};

class Client {
 public:
  /// Fails with kUnavailable (E0920: nobody listens there; E0921: the socket is not of root or of
  /// this user, so nothing is told to it).
  [[nodiscard]] static Result<Client> connect(const std::string& socket);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  /// Where it is connected to.
  [[nodiscard]] const std::string& socket() const;
  /// Waits for the answer at most so long; 0: for ever. Fails with kUnavailable (E0922: the broker
  /// went away, or does not answer); after that the connection is of no use.
  [[nodiscard]] Result<Response> call(std::string_view method, std::string_view path,
                                      std::string body = {},
                                      std::chrono::milliseconds at_most = std::chrono::seconds(30));
  /// The same in two steps, for who has something to do meanwhile. One question at a time.
  void ask(std::string_view method, std::string_view path, std::string body = {});
  /// nullopt: none within that time; it may still come. Fails as call().
  [[nodiscard]] Result<std::optional<Response>> answer(std::chrono::milliseconds within);

 private:
  struct Parts;
  explicit Client(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace berth::client
