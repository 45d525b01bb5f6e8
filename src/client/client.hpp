// Client: one connection to a broker. It sends one call after another.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::client {

struct Response {
  int status = 0;
  std::string body;  // JSON
  /// If the body is a part of a file: the offset of the next part.
  std::optional<std::int64_t> next = {};
};

/// Time limit for answers that only depend on the broker, and not on a driver.
inline constexpr std::chrono::milliseconds kAnswerSoon(10'000);

/// E1140: the answer has another form than expected, so the broker may be of another release.
[[nodiscard]] Error unreadable_answer(const Response& response);

/// Whether the error means that the broker disconnected before it answered (E0943). A restarted
/// broker continues with the same jobs.
[[nodiscard]] bool went_away(const Error& error);

/// Sets the function that gets a sentence about each wait of more than a second.
void tell_of_waits(std::function<void(const std::string&)> tell);
/// Passes a sentence to the function set with tell_of_waits().
void say_wait(const std::string& sentence);

class Client {
 public:
  /// Fails with kUnavailable (E0920: no broker listens on this socket; E0922: the broker's queue of
  /// connections is full), kPermissionDenied (E0921: the socket belongs to neither root nor this
  /// user, so nothing is sent to it).
  [[nodiscard]] static Result<Client> connect(const std::string& socket,
                                              std::chrono::milliseconds at_most = kAnswerSoon);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  /// The path of the socket.
  [[nodiscard]] const std::string& socket() const;
  /// Sends a call and waits at most this long for the answer. Waits longer if the broker still
  /// answers other calls: it is then reading the machine, and a driver may be slow. Reports a wait
  /// of more than a second. `at_most` 0 means no limit, because the answer may take days; then it
  /// reports if the broker stops answering other calls. Fails with kUnavailable (E0922: no answer;
  /// E0943: the broker disconnected). After a failure the connection is unusable.
  [[nodiscard]] Result<Response> call(std::string_view method, std::string_view path,
                                      std::string body = {},
                                      std::chrono::milliseconds at_most = kAnswerSoon);
  /// Sends a call without waiting for the answer, which answer() or await() returns. The caller can
  /// do other work in between. Only one call at a time.
  void ask(std::string_view method, std::string_view path, std::string body = {});
  /// The answer to ask(). nullopt: there is no answer within this time (0: no limit), but it may
  /// still come. Fails with kUnavailable (E0943).
  [[nodiscard]] Result<std::optional<Response>> answer(std::chrono::milliseconds within);
  /// Call it after ask(). Waits for the answer without a time limit.
  [[nodiscard]] Result<Response> await();
  /// E0922: the broker does not answer, and what to do about it.
  [[nodiscard]] Error does_not_answer() const;

 private:
  [[nodiscard]] bool answers_others() const;
  struct Parts;
  explicit Client(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace berth::client
