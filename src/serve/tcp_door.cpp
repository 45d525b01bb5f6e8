// Reads and checks a caller's header here, then forwards the bytes to our own socket and the answer
// back, until one side ends. The server behind the socket limits bodies and drops slow clients; the
// kernel tells it that the caller is our own user.
#include "serve/tcp_door.hpp"

#include <array>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <limits>
#include <list>
#include <optional>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
#include "output/error.hpp"
#include "serve/page_files.hpp"
#include "serve/tcp_address.hpp"
#include "serve/token.hpp"
#include "system/runtime_folder.hpp"

namespace berth::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Local = asio::local::stream_protocol;

constexpr std::size_t kMostConnections = 128;
/// Connections above the limit that get an answer at the same time. Others wait in the kernel.
constexpr std::size_t kMostRefusals = 16;
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

/// A browser names the page that calls. Ours is at the same address as the call; no other page is.
bool is_from_other_page(const Header& header) {
  if (header.find(http::field::origin) == header.end()) return false;
  const std::string_view host = field(header, http::field::host);
  return field(header, http::field::origin) != "http://" + std::string(host);
}

/// A browser opens the page before the page can send a token.
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
class Relay;
}

struct TcpDoor::Parts {
  Parts(asio::io_context& on, std::string its_token, const std::string& socket)
      : loop(on), token(std::move(its_token)), name(socket), acceptor(on), again(on) {}
  asio::io_context& loop;
  std::string token;
  system::SocketName name;
  Local::endpoint server{name.text()};
  unsigned port = 0;
  tcp::acceptor acceptor;
  asio::steady_timer again;
  std::size_t connections = 0, refusals = 0;
  std::list<Relay*> strangers;  // connections that have not sent a token yet, oldest first
};

namespace {

class Relay : public std::enable_shared_from_this<Relay> {
 public:
  /// `is_too_many`: it is above the limit, and answer_busy() is to be called, not begin().
  Relay(std::shared_ptr<TcpDoor::Parts> door, tcp::socket caller, bool is_too_many)
      : door_(std::move(door)),
        count_(is_too_many ? door_->refusals : door_->connections),
        caller_(std::move(caller)),
        server_(door_->loop),
        deadline_(door_->loop) {
    ++count_;
    if (!is_too_many) stranger_ = door_->strangers.insert(door_->strangers.end(), this);
    parser_.header_limit(kMostHeaderBytes);
    parser_.body_limit(std::numeric_limits<std::uint64_t>::max());  // the server has its own limit
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    forget_stranger();
    --count_;
  }

  void begin() {
    expire_after(kSlow);
    http::async_read_header(caller_, buffer_, parser_,
                            [self = shared_from_this()](error_code problem, std::size_t) {
                              self->got_header(problem);
                            });
  }

  void answer_busy() {
    refuse("503 Service Unavailable\r\nRetry-After: 1",
           Error{ErrorCode::kUnavailable, "E1086",
                 text("{} connections are open: call again later", kMostConnections), ""});
  }

  void close() {
    forget_stranger();
    error_code ignored;
    caller_.close(ignored);
    server_.close(ignored);
    deadline_.cancel();
  }

 private:
  void forget_stranger() {
    if (stranger_) door_->strangers.erase(*stranger_);
    stranger_.reset();
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
    if (problem) return close();
    const Header& header = parser_.get();
    if (!is_own_host(field(header, http::field::host), door_->port) || is_from_other_page(header))
      return refuse("403 Forbidden",
                    Error{ErrorCode::kPermissionDenied, "E0918",
                          text("the call names another host, or comes from a web page"), ""});
    if (!is_same_token(token_of(header), door_->token) && !asks_for_page(header))
      return refuse("401 Unauthorized\r\nWWW-Authenticate: Bearer",
                    Error{ErrorCode::kPermissionDenied, "E0917",
                          text("the call lacks the token of this broker"), ""});
    forget_stranger();
    deadline_.cancel();
    server_.async_connect(door_->server, [self = shared_from_this()](error_code trouble) {
      if (trouble) return self->close();
      self->pass_header();
    });
  }

  void refuse(std::string_view status, const std::optional<Error>& error = {}) {
    const std::string body = error ? output::error_json(*error, 0) : "";
    said_ = fmt::format(
        "HTTP/1.1 {}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        "Content-Length: {}\r\n\r\n{}",
        status, body.size(), body);
    expire_after(std::chrono::seconds(2));
    asio::async_write(caller_, asio::buffer(said_),
                      [self = shared_from_this()](error_code problem, std::size_t) {
                        if (problem) return self->close();
                        // Closing with unread data would discard our answer.
                        error_code ignored;
                        self->caller_.shutdown(tcp::socket::shutdown_send, ignored);
                        self->drain();
                      });
  }

  /// Discards what the caller of a refused call still sends. pass_down() sends the answer and sets
  /// the deadline.
  void drain() {
    caller_.async_read_some(asio::buffer(up_),
                            [self = shared_from_this()](error_code problem, std::size_t) {
                              if (problem) return self->close();
                              self->drain();
                            });
  }

  /// Forwards only what the server needs, in a form that the server cannot interpret differently.
  void pass_header() {
    const Header& header = parser_.get();
    const auto method = header.method_string(), target = header.target();
    said_ = fmt::format("{} {} HTTP/1.1\r\nHost: berth\r\nConnection: close\r\n",
                        std::string_view(method.data(), method.size()),
                        std::string_view(target.data(), target.size()));
    if (const auto accept = field(header, http::field::accept); !accept.empty())
      said_ += fmt::format("Accept: {}\r\n", accept);
    if (parser_.chunked())
      said_ += "Transfer-Encoding: chunked\r\n";
    else if (const auto length = parser_.content_length())
      said_ += fmt::format("Content-Length: {}\r\n", *length);
    said_ += "\r\n";
    const auto rest = buffer_.data();
    said_.append(static_cast<const char*>(rest.data()), rest.size());
    asio::async_write(server_, asio::buffer(said_),
                      [self = shared_from_this()](error_code problem, std::size_t) {
                        problem ? self->drain() : self->pass_up();
                      });
    pass_down();
  }

  void pass_up() {
    caller_.async_read_some(asio::buffer(up_),
                            [self = shared_from_this()](error_code problem, std::size_t n) {
                              if (problem) return self->close();  // nobody waits for the answer
                              asio::async_write(self->server_, asio::buffer(self->up_.data(), n),
                                                [self](error_code trouble, std::size_t) {
                                                  trouble ? self->drain() : self->pass_up();
                                                });
                            });
  }

  void pass_down() {
    server_.async_read_some(asio::buffer(down_),
                            [self = shared_from_this()](error_code problem, std::size_t n) {
                              if (problem) return self->end();
                              self->expire_after(kSlow);
                              asio::async_write(self->caller_, asio::buffer(self->down_.data(), n),
                                                [self](error_code trouble, std::size_t) {
                                                  if (trouble) return self->close();
                                                  self->deadline_.cancel();
                                                  self->pass_down();
                                                });
                            });
  }

  /// The answer is complete. Anything the caller still sends (a refused body) is discarded until
  /// pass_up() or the deadline ends it.
  void end() {
    error_code ignored;
    caller_.shutdown(tcp::socket::shutdown_send, ignored);
    server_.close(ignored);
    expire_after(std::chrono::seconds(2));
  }

  std::shared_ptr<TcpDoor::Parts> door_;
  std::size_t& count_;  // that this one is part of, in `door_`
  std::optional<std::list<Relay*>::iterator> stranger_;
  tcp::socket caller_;
  Local::socket server_;
  asio::steady_timer deadline_;
  boost::beast::flat_buffer buffer_{64 << 10};
  http::request_parser<http::empty_body> parser_;
  std::string said_;
  std::array<char, 16 << 10> up_{}, down_{};
};

void accept(const std::shared_ptr<TcpDoor::Parts>& parts) {
  parts->acceptor.async_accept(
      [weak = std::weak_ptr(parts)](error_code problem, tcp::socket caller) {
        const auto here = weak.lock();
        if (!here || !here->acceptor.is_open()) return;
        // At the limit, close the oldest connection without a token. If all connections have sent a
        // token, tell the new caller to come back, and pause while too many are being told.
        bool is_too_many = here->connections >= kMostConnections;
        if (!problem && is_too_many && !here->strangers.empty()) {
          here->strangers.front()->close();
          is_too_many = false;
        }
        if (!problem) {
          const auto relay = std::make_shared<Relay>(here, std::move(caller), is_too_many);
          is_too_many ? relay->answer_busy() : relay->begin();
          if (here->refusals < kMostRefusals) return accept(here);
        }
        here->again.expires_after(std::chrono::milliseconds(100));
        here->again.async_wait([here](error_code stopped) {
          if (!stopped) accept(here);
        });
      });
}

}  // namespace

Result<std::unique_ptr<TcpDoor>> TcpDoor::open(asio::io_context& loop, const std::string& address,
                                               const std::string& token,
                                               const std::string& socket) {
  const auto endpoint = endpoint_of(address);
  if (!endpoint || !endpoint->address().is_loopback()) return no_loopback(address);
  auto parts = std::make_shared<Parts>(loop, token, socket);
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
