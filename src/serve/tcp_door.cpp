// Reads and checks a caller's header, then gives the connection to the server. The server treats it
// like a connection of this process's user over the Unix socket.
#include "serve/tcp_door.hpp"

#include <array>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <limits>
#include <list>
#include <optional>
#include <utility>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "output/error.hpp"
#include "serve/page_files.hpp"
#include "serve/server.hpp"
#include "serve/tcp_address.hpp"
#include "serve/token.hpp"

namespace berth::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

/// The maximum number of connections that have not sent a token yet or are being refused.
constexpr std::size_t kMostStrangers = 128;
constexpr std::uint32_t kMostHeaderBytes = 8 << 10;
constexpr std::chrono::seconds kSlow(10);

Error no_loopback(const std::string& address) {
  return {ErrorCode::kInvalidArgument, "E0915",
          text("{} is not a loopback address with a port", printable(address)),
          "berth serve --tcp 127.0.0.1:8642"};
}

using Header = http::request<http::empty_body>;

std::string_view field(const Header& header, http::field name) {
  const auto value = header[name];
  return {value.data(), value.size()};
}

/// "Bearer WORD" → WORD
std::string_view token_of(const Header& header) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view value = field(header, http::field::authorization);
  if (value.size() < kScheme.size()) return {};
  for (std::size_t i = 0; i < kScheme.size(); ++i)
    if ((value[i] | (i + 1 < kScheme.size() ? 0x20 : 0)) != kScheme[i]) return {};
  return value.substr(kScheme.size());
}

/// A browser sends the origin of the page that makes the call. If the page is Berth's own, its
/// origin is the host to which the call is sent.
bool is_from_other_page(const Header& header) {
  if (header.find(http::field::origin) == header.end()) return false;
  const std::string_view host = field(header, http::field::host);
  return field(header, http::field::origin) != "http://" + std::string(host);
}

/// Whether the call requests the web page. This needs no token, because a browser opens the page
/// before the page can send one.
bool asks_for_page(const Header& header) {
  const auto target = header.target();
  return header.method() == http::verb::get && is_page({target.data(), target.size()});
}

}  // namespace

bool is_own_host(std::string_view host, unsigned port) {
  const std::string end = ":" + std::to_string(port);
  if (host.ends_with(end)) host.remove_suffix(end.size());
  std::string name(host);
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const bool is_number = name.find_first_not_of("0123456789.") == std::string::npos;
  return name == "localhost" || name == "[::1]" || (is_number && name.starts_with("127."));
}

namespace {
class Stranger;
}

struct TcpDoor::Parts {
  Parts(asio::io_context& on, std::string its_token, Server& to)
      : loop(on), token(std::move(its_token)), server(to), acceptor(on), again(on) {}
  asio::io_context& loop;
  std::string token;
  Server& server;
  unsigned port = 0;
  tcp::acceptor acceptor;
  asio::steady_timer again;
  std::list<Stranger*> strangers;  // oldest first
};

namespace {

class Stranger : public std::enable_shared_from_this<Stranger> {
 public:
  Stranger(std::shared_ptr<TcpDoor::Parts> door, tcp::socket socket)
      : door_(std::move(door)), socket_(std::move(socket)), deadline_(door_->loop) {
    place_ = door_->strangers.insert(door_->strangers.end(), this);
    parser_.header_limit(kMostHeaderBytes);
    parser_.body_limit(std::numeric_limits<std::uint64_t>::max());  // the server has its own limit
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() { forget(); }

  void begin() {
    expire_after(kSlow);
    http::async_read_header(socket_, buffer_, parser_,
                            [self = shared_from_this()](error_code problem, std::size_t) {
                              self->got_header(problem);
                            });
  }

  void close() {
    forget();
    error_code ignored;
    socket_.close(ignored);
    deadline_.cancel();
  }

 private:
  void forget() {
    if (place_) door_->strangers.erase(*place_);
    place_.reset();
  }

  void expire_after(std::chrono::seconds time) {
    deadline_.expires_after(time);
    deadline_.async_wait([weak = weak_from_this()](error_code problem) {
      if (const auto self = weak.lock(); self && !problem) self->close();
    });
  }

  void got_header(error_code problem) {
    if (problem == http::error::header_limit) return refuse("431 Request Header Fields Too Large");
    if (problem &&
        problem.category() == http::make_error_code(http::error::bad_target).category() &&
        problem != http::error::end_of_stream && problem != http::error::partial_message)
      return refuse("400 Bad Request");
    if (problem || !door_->acceptor.is_open()) return close();
    const Header& header = parser_.get();
    if (!is_own_host(field(header, http::field::host), door_->port) || is_from_other_page(header))
      return refuse(
          "403 Forbidden",
          Error{
              ErrorCode::kPermissionDenied, "E0918",
              text("the request is for another host (Host header), or comes from another web page"),
              ""});
    if (!is_same_token(token_of(header), door_->token) && !asks_for_page(header))
      return refuse("401 Unauthorized\r\nWWW-Authenticate: Bearer",
                    Error{ErrorCode::kPermissionDenied, "E0917",
                          text("the call lacks the token of this broker"), ""});
    if (!door_->server.make_room())
      return refuse("503 Service Unavailable\r\nRetry-After: 1",
                    Error{ErrorCode::kUnavailable, "E1086",
                          text("{} connections are open: call again later",
                               door_->server.limits().connections_a_user),
                          ""});
    error_code trouble;
    socket_.set_option(tcp::no_delay(true), trouble);
    Descriptor socket(socket_.release(trouble));
    const std::string call = checked_call();
    close();
    if (!trouble) door_->server.adopt(std::move(socket), call);
  }

  void refuse(std::string_view status, const std::optional<Error>& error = {}) {
    const std::string body = error ? output::error_json(*error, 0) : "";
    said_ = fmt::format(
        "HTTP/1.1 {}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        "Content-Length: {}\r\n\r\n{}",
        status, body.size(), body);
    expire_after(std::chrono::seconds(2));
    asio::async_write(socket_, asio::buffer(said_),
                      [self = shared_from_this()](error_code problem, std::size_t) {
                        if (problem) return self->close();
                        // If the socket were closed while it has unread data, the client would not
                        // get the answer.
                        error_code ignored;
                        self->socket_.shutdown(tcp::socket::shutdown_send, ignored);
                        self->drain();
                      });
  }

  /// Discards what the caller of a refused call still sends.
  void drain() {
    socket_.async_read_some(asio::buffer(discarded_),
                            [self = shared_from_this()](error_code problem, std::size_t) {
                              if (problem) return self->close();
                              self->drain();
                            });
  }

  /// The checked call as the server will read it: only the needed headers, in a form that has one
  /// meaning. The part of the body that has arrived follows.
  [[nodiscard]] std::string checked_call() const {
    const Header& header = parser_.get();
    const auto method = header.method_string(), target = header.target();
    std::string call = fmt::format("{} {} HTTP/1.1\r\nHost: berth\r\nConnection: close\r\n",
                                   std::string_view(method.data(), method.size()),
                                   std::string_view(target.data(), target.size()));
    if (const auto accept = field(header, http::field::accept); !accept.empty())
      call += fmt::format("Accept: {}\r\n", accept);
    if (parser_.chunked())
      call += "Transfer-Encoding: chunked\r\n";
    else if (const auto length = parser_.content_length())
      call += fmt::format("Content-Length: {}\r\n", *length);
    call += "\r\n";
    const auto rest = buffer_.data();
    return call.append(static_cast<const char*>(rest.data()), rest.size());
  }

  std::shared_ptr<TcpDoor::Parts> door_;
  std::optional<std::list<Stranger*>::iterator> place_;
  tcp::socket socket_;
  asio::steady_timer deadline_;
  boost::beast::flat_buffer buffer_{32 << 10};
  http::request_parser<http::empty_body> parser_;
  std::string said_;
  std::array<char, 4 << 10> discarded_{};
};

void accept(const std::shared_ptr<TcpDoor::Parts>& parts) {
  parts->acceptor.async_accept(
      [weak = std::weak_ptr(parts)](error_code problem, tcp::socket socket) {
        const auto here = weak.lock();
        if (!here || !here->acceptor.is_open()) return;
        if (!problem) {
          if (here->strangers.size() >= kMostStrangers) here->strangers.front()->close();
          std::make_shared<Stranger>(here, std::move(socket))->begin();
          return accept(here);
        }
        here->again.expires_after(std::chrono::milliseconds(100));
        here->again.async_wait([here](error_code stopped) {
          if (!stopped) accept(here);
        });
      });
}

}  // namespace

Result<std::unique_ptr<TcpDoor>> TcpDoor::open(asio::io_context& loop, const std::string& address,
                                               const std::string& token, Server& server) {
  const auto endpoint = endpoint_of(address);
  if (!endpoint || !endpoint->address().is_loopback()) return no_loopback(address);
  auto parts = std::make_shared<Parts>(loop, token, server);
  parts->port = endpoint->port();
  error_code problem;
  parts->acceptor.open(endpoint->protocol(), problem);
  if (!problem) parts->acceptor.set_option(tcp::acceptor::reuse_address(true), problem);
  if (!problem) parts->acceptor.bind(*endpoint, problem);
  if (!problem) parts->acceptor.listen(asio::socket_base::max_listen_connections, problem);
  if (problem)
    return Error{ErrorCode::kUnavailable, "E0916",
                 text("cannot listen at {}: {}", printable(address), printable(problem.message())),
                 "ss -ltnp"};
  accept(parts);
  return std::unique_ptr<TcpDoor>(new TcpDoor(std::move(parts)));
}

TcpDoor::TcpDoor(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}

TcpDoor::~TcpDoor() {
  error_code ignored;
  parts_->acceptor.close(ignored);
}

}  // namespace berth::serve
