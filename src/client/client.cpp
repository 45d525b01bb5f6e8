#include "client/client.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "system/runtime_folder.hpp"

namespace berth::client {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

/// A broker's answers are ours; this only keeps a strange one from filling our memory.
constexpr std::uint64_t kMostBody = 1ULL << 30;

Error unreachable(const std::string& socket, const std::string& why) {
  return {ErrorCode::kUnavailable, "E0920",
          text("no broker answers at {}: {}", printable(socket), why),
          socket == system::kSystemSocket ? "systemctl status berth" : "berth run -- true"};
}

Error went_away(const std::string& socket, const error_code& why) {
  return {ErrorCode::kUnavailable, "E0922",
          text("the broker at {} went away: {}", printable(socket), why.message()), ""};
}

}  // namespace

struct Client::Parts {
  asio::io_context loop{1};
  asio::local::stream_protocol::socket socket{loop};
  boost::beast::flat_buffer buffer;
  std::string path;
  http::request<http::string_body> request;
  std::optional<http::response_parser<http::string_body>> response;
  error_code problem;
};

Client::Client(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::connect(const std::string& socket) {
  auto parts = std::make_unique<Parts>();
  parts->path = socket;
  const system::SocketName name(socket);
  constexpr std::size_t kLongest = 107;  // sockaddr_un
  if (name.text().size() > kLongest) return unreachable(socket, text("the path is too long"));
  error_code problem;
  parts->socket.connect(asio::local::stream_protocol::endpoint(name.text()), problem);
  if (problem) return unreachable(socket, problem.message());
  ucred other = {};
  socklen_t size = sizeof other;
  const bool known =
      ::getsockopt(parts->socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &other, &size) == 0;
  if (!known || (other.uid != 0 && other.uid != ::geteuid()))
    return Error{ErrorCode::kPermissionDenied, "E0921",
                 text("the broker at {} is another user's (uid {})", printable(socket), other.uid),
                 "ls -l " + printable(socket)};
  return Client(std::move(parts));
}

const std::string& Client::socket() const {
  return parts_->path;
}

void Client::ask(std::string_view method, std::string_view path, std::string body) {
  Parts& parts = *parts_;
  parts.request = {};
  parts.request.version(11);
  parts.request.method_string({method.data(), method.size()});
  parts.request.target({path.data(), path.size()});
  parts.request.set(http::field::host, "berth");
  parts.request.body() = std::move(body);
  parts.request.prepare_payload();
  parts.response.emplace();
  parts.response->body_limit(kMostBody);
  parts.loop.restart();
  // Who refuses a call may do so before all of it was written.
  http::async_write(parts.socket, parts.request, [&parts](error_code wrote, std::size_t) {
    http::async_read(parts.socket, parts.buffer, *parts.response,
                     [&parts, wrote](error_code read, std::size_t) {
                       parts.problem = read && wrote ? wrote : read;
                     });
  });
}

Result<std::optional<Response>> Client::answer(std::chrono::milliseconds within) {
  if (within.count() == 0)
    parts_->loop.run();
  else
    parts_->loop.run_for(within);
  if (!parts_->loop.stopped()) return std::optional<Response>();
  if (parts_->problem) return went_away(parts_->path, parts_->problem);
  auto message = parts_->response->release();
  return std::optional(Response{static_cast<int>(message.result_int()), std::move(message.body())});
}

Result<Response> Client::call(std::string_view method, std::string_view path, std::string body,
                              std::chrono::milliseconds at_most) {
  ask(method, path, std::move(body));
  auto response = answer(at_most);
  if (!response) return std::move(response).error();
  if (*response) return **std::move(response);
  // An answer that comes later must not be taken for that of the next question.
  error_code ignored;
  parts_->socket.close(ignored);
  parts_->loop.run();
  return went_away(parts_->path, asio::error::timed_out);
}

}  // namespace berth::client
