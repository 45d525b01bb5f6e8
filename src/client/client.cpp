#include "client/client.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::client {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

/// A broker's answers are ours; this only keeps a strange one from filling our memory.
constexpr std::uint64_t kMostBody = 1ULL << 30;

Error unreachable(const std::string& socket, const std::string& why) {
  return {ErrorCode::kUnavailable, "E0920",
          text("no broker answers at {}: {}", printable(socket), why), "berth run -- true"};
}

}  // namespace

struct Client::Parts {
  asio::io_context loop{1};
  asio::local::stream_protocol::socket socket{loop};
  boost::beast::flat_buffer buffer;
  std::string path;
};

Client::Client(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::connect(const std::string& socket) {
  auto parts = std::make_unique<Parts>();
  parts->path = socket;
  constexpr std::size_t kLongest = 107;  // sockaddr_un
  if (socket.size() > kLongest) return unreachable(socket, text("the path is too long"));
  error_code problem;
  parts->socket.connect(asio::local::stream_protocol::endpoint(socket), problem);
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

Result<Response> Client::call(std::string_view method, std::string_view path, std::string body,
                              std::chrono::milliseconds at_most) {
  http::request<http::string_body> request;
  request.version(11);
  request.method_string({method.data(), method.size()});
  request.target({path.data(), path.size()});
  request.set(http::field::host, "berth");
  request.body() = std::move(body);
  request.prepare_payload();
  http::response_parser<http::string_body> answer;
  answer.body_limit(kMostBody);
  error_code problem = asio::error::timed_out;
  http::async_write(parts_->socket, request, [&](error_code wrote, std::size_t) {
    problem = wrote;
    if (wrote) return;
    problem = asio::error::timed_out;
    http::async_read(parts_->socket, parts_->buffer, answer,
                     [&](error_code read, std::size_t) { problem = read; });
  });
  parts_->loop.restart();
  if (at_most.count() == 0)
    parts_->loop.run();
  else
    parts_->loop.run_for(at_most);
  if (!parts_->loop.stopped()) {
    // Their buffers are here: they must be over before we are.
    error_code ignored;
    parts_->socket.close(ignored);
    parts_->loop.run();
    problem = asio::error::timed_out;
  }
  if (problem)
    return Error{ErrorCode::kUnavailable, "E0922",
                 text("the broker at {} went away: {}", printable(parts_->path), problem.message()),
                 ""};
  auto message = answer.release();
  return Response{static_cast<int>(message.result_int()), std::move(message.body())};
}

}  // namespace berth::client
