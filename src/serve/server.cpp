// Each connection is one object, kept alive by its pending operation. It handles one call at a
// time: it reads the call, passes it on, waits for the answer and writes the answer. Each
// connection has its own deadline timer. So a client that sends a byte a minute costs a few hundred
// bytes and is dropped soon.
#include "serve/server.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "serve/refusal.hpp"
#include "serve/target.hpp"
#include "serve/watches.hpp"

namespace berth::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Socket = asio::generic::stream_protocol::socket;
using boost::system::error_code;

constexpr int kAtOnce = 64;
// the most data of a refused call that is read and discarded
constexpr std::size_t kMostThrownAway = 8 << 20;
/// The maximum number of calls that are handled in one turn of the event loop. Their answers are
/// sent after the turn.
constexpr int kCallsAtOnce = 16;
constexpr std::chrono::milliseconds kLongTurn(5);

/// True if the bytes are not HTTP; false if they are only an incomplete call.
bool is_no_http(const error_code& problem) {
  return problem && problem != http::error::end_of_stream &&
         problem != http::error::partial_message &&
         problem.category() == http::make_error_code(http::error::bad_target).category();
}

}  // namespace

struct Server::Parts : std::enable_shared_from_this<Server::Parts> {
  Parts(asio::io_context& on, Handle to, Rest then, Limits within)
      : loop(on),
        handle(std::move(to)),
        rest(std::move(then)),
        limits(within),
        acceptor(on),
        again(on) {}

  asio::io_context& loop;
  Handle handle;
  Rest rest;
  Limits limits;
  asio::local::stream_protocol::acceptor acceptor;
  asio::steady_timer again;
  std::set<Answer::Connection*> open;
  std::map<uid_t, std::size_t> bytes;  // memory used by each user's calls and answers
  std::uint64_t accepted = 0;
  std::map<uid_t, std::deque<std::pair<Call, Answer>>> calls;  // not handled yet, by user
  uid_t last_served = 0;

  /// Users take turns, so that one user's thousand calls do not delay the others.
  void take(Call call, Answer answer) {
    const bool is_first = calls.empty();
    calls[call.peer.uid].emplace_back(std::move(call), std::move(answer));
    if (is_first) serve_soon();
  }
  void serve_soon() {
    asio::post(loop, [weak = weak_from_this()] {
      if (const auto here = weak.lock()) here->serve();
    });
  }
  void serve() {
    const auto until = std::chrono::steady_clock::now() + kLongTurn;
    for (int i = 0; i < kCallsAtOnce && !calls.empty(); ++i) {
      serve_one();
      if (std::chrono::steady_clock::now() > until) break;
    }
    rest();
    if (!calls.empty()) serve_soon();
  }
  void serve_one() {
    auto turn = calls.upper_bound(last_served);
    if (turn == calls.end()) turn = calls.begin();
    last_served = turn->first;
    auto& theirs = turn->second;
    // Drop the calls of closed connections. These connections no longer count for the limit, so
    // their calls could pile up.
    while (theirs.size() > 1 && !theirs.front().second.is_wanted()) theirs.pop_front();
    auto [call, answer] = std::move(theirs.front());
    theirs.pop_front();
    if (theirs.empty()) calls.erase(turn);
    if (answer.is_wanted()) handle(std::move(call), answer);
  }
};

class Answer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Server::Parts> server, Socket socket, Peer peer)
      : server_(std::move(server)),
        socket_(std::move(socket)),
        peer_(std::move(peer)),
        deadline_(server_->loop),
        number_(++server_->accepted) {
    server_->open.insert(this);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    give_back_bytes();
    server_->open.erase(this);
  }

  void read() {
    state_ = State::kIdle;
    expire_after(server_->limits.idle_seconds);
    read_header();
  }

  /// Continues a call on a TCP connection. `received`: the first bytes of the call, which the
  /// caller has already read.
  void go_on(std::string_view received) {
    buffer_.commit(asio::buffer_copy(buffer_.prepare(received.size()), asio::buffer(received)));
    is_local_ = false;
    state_ = State::kReading;
    expire_after(server_->limits.slow_seconds);
    read_header();
  }

  void send(Reply reply) {
    if (state_ != State::kAnswering) return;
    write(std::move(reply));
  }

  void stream(std::string_view bytes) {
    if (state_ == State::kAnswering) {
      error_code ignored;
      socket_.cancel(ignored);
      state_ = State::kStreaming;
      watch_for_the_end();
      send_part(
          "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
          "Connection: close\r\n\r\n");
    }
    if (state_ == State::kStreaming) send_part(bytes);
  }

  [[nodiscard]] bool is_idle() const { return state_ == State::kIdle; }
  [[nodiscard]] bool is_waited_for() const {
    return state_ == State::kAnswering || state_ == State::kStreaming;
  }
  [[nodiscard]] const Peer& peer() const { return peer_; }
  [[nodiscard]] std::uint64_t number() const { return number_; }

  void close() {
    state_ = State::kClosed;
    error_code ignored;
    socket_.close(ignored);
    deadline_.cancel();
    give_back_bytes();
  }

 private:
  enum class State : unsigned char { kIdle, kReading, kAnswering, kStreaming, kWriting, kClosed };

  void expire_after(int seconds) {
    deadline_.expires_after(std::chrono::seconds(seconds));
    deadline_.async_wait([weak = weak_from_this()](error_code problem) {
      if (const auto self = weak.lock(); self && !problem) self->close();
    });
  }

  void read_header() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(server_->limits.header_bytes));
    parser_->body_limit(server_->limits.body_bytes);
    http::async_read_header(socket_, buffer_, *parser_,
                            [self = shared_from_this()](error_code problem, std::size_t) {
                              self->got_header(problem);
                            });
  }

  void got_header(error_code problem) {
    if (state_ == State::kClosed) return;
    const Limits& limits = server_->limits;
    if (problem == http::error::header_limit) return refuse(header_too_large(limits.header_bytes));
    if (problem == http::error::body_limit) return refuse(body_too_large(limits.body_bytes));
    if (is_no_http(problem)) return refuse(no_call());
    if (problem) return close();
    const auto length =
        parser_->chunked() ? limits.body_bytes : parser_->content_length().value_or(0);
    if (!take_bytes(length)) return refuse(too_much_at_once(limits.bytes_a_user));
    state_ = State::kReading;
    expire_after(limits.slow_seconds);
    if (boost::beast::iequals(parser_->get()[http::field::expect], "100-continue"))
      return ask_for_the_body();
    read_body();
  }

  /// The client waits for "100 Continue" before it sends the body.
  void ask_for_the_body() {
    static constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(socket_, asio::buffer(kGoOn),
                      [self = shared_from_this()](error_code problem, std::size_t) {
                        if (self->state_ == State::kClosed) return;
                        if (problem) return self->close();
                        self->read_body();
                      });
  }

  void read_body() {
    http::async_read(
        socket_, buffer_, *parser_,
        [self = shared_from_this()](error_code trouble, std::size_t) { self->got_call(trouble); });
  }

  void got_call(error_code problem) {
    if (state_ == State::kClosed) return;
    if (problem == http::error::body_limit)
      return refuse(body_too_large(server_->limits.body_bytes));
    if (problem) return close();
    auto message = parser_->release();
    keep_alive_ = message.keep_alive();
    Call call;
    call.method = std::string(message.method_string());
    const std::string_view target(message.target().data(), message.target().size());
    if (!take_target(target, call)) return refuse(no_call());
    call.body = std::move(message.body());
    const auto accept = message[http::field::accept];
    call.accept.assign(accept.data(), accept.size());
    call.peer = peer_;
    state_ = State::kAnswering;
    deadline_.cancel();
    watch_for_the_end();
    server_->take(std::move(call), Answer(weak_from_this()));
  }

  /// Detects that the client disconnected, because nothing else is read while an answer is pending.
  /// On a local socket, data that the client has already sent is not read.
  void watch_for_the_end() {
    const auto what = is_local_ ? Socket::wait_error : Socket::wait_read;
    socket_.async_wait(what, [self = shared_from_this()](error_code problem) {
      if (problem || !self->is_waited_for()) return;
      if (!self->is_local_ && self->discard()) return self->watch_for_the_end();
      self->close();
    });
  }

  /// Over TCP, the end of a connection is only visible after all data before it. So this reads and
  /// discards the data, which is not needed: such a connection has only one call. Returns false if
  /// the connection has ended.
  [[nodiscard]] bool discard() {
    std::array<char, 4096> bytes{};
    const ssize_t n = ::recv(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  }

  /// Counts more bytes of memory for this call. Returns false if all calls of this user together
  /// would exceed the limit.
  bool take_bytes(std::size_t more) {
    if (more == 0) return true;
    std::size_t& all = server_->bytes[peer_.uid];
    if (all > bytes_ && all + more > server_->limits.bytes_a_user) return false;
    all += more;
    bytes_ += more;
    return true;
  }

  void give_back_bytes() { give_back_bytes(bytes_); }
  void give_back_bytes(std::size_t less) {
    less = std::min(less, bytes_);
    if (less == 0) return;
    const auto mine = server_->bytes.find(peer_.uid);
    mine->second -= less;
    bytes_ -= less;
    if (mine->second == 0) server_->bytes.erase(mine);
  }

  /// Sends a part of a stream. If the client reads in time, which is usual, this needs no copy and
  /// no timer.
  void send_part(std::string_view bytes) {
    if (in_sending_.empty()) {
      const ssize_t sent =
          ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
      if (bytes.empty()) return;
    }
    // The limit does not count the new bytes, because the first part contains all existing jobs and
    // may be long.
    if (to_send_.size() > server_->limits.stream_bytes || !take_bytes(bytes.size())) return close();
    to_send_ += bytes;
    if (in_sending_.empty()) send_more();
  }

  void send_more() {
    in_sending_ = std::exchange(to_send_, {});
    expire_after(server_->limits.slow_seconds);
    asio::async_write(socket_, asio::buffer(in_sending_),
                      [self = shared_from_this()](error_code problem, std::size_t) {
                        if (self->state_ != State::kStreaming) return;
                        if (problem) return self->close();
                        self->deadline_.cancel();
                        self->give_back_bytes(self->in_sending_.size());
                        self->in_sending_ = {};  // free the memory of a large part
                        if (!self->to_send_.empty()) self->send_more();
                      });
  }

  void refuse(Reply reply) {
    keep_alive_ = false;
    left_ = kMostThrownAway;
    write(std::move(reply));
  }

  /// If the socket were closed while the client is still sending, the answer would be lost. So the
  /// client's data is read and discarded for a while.
  void throw_away() {
    error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
    buffer_.clear();
    socket_.async_read_some(buffer_.prepare(buffer_.max_size()),
                            [self = shared_from_this()](error_code problem, std::size_t bytes) {
                              if (self->state_ == State::kClosed) return;
                              if (problem || bytes >= self->left_) return self->close();
                              self->left_ -= bytes;
                              self->throw_away();
                            });
  }

  void write(Reply reply) {
    state_ = State::kWriting;
    error_code ignored;
    socket_.cancel(ignored);
    expire_after(server_->limits.slow_seconds);
    give_back_bytes();
    if (!take_bytes(reply.body.size())) {
      reply = too_much_at_once(server_->limits.bytes_a_user);
      keep_alive_ = false;
    }
    response_ = {};
    response_.version(11);
    response_.result(static_cast<unsigned>(reply.status));
    response_.set(http::field::content_type, reply.type);
    if (reply.next) response_.set("Berth-Next", std::to_string(*reply.next));
    if (*reply.policy != '\0') {
      response_.set("Content-Security-Policy", reply.policy);
      response_.set("X-Content-Type-Options", "nosniff");
      response_.set("Referrer-Policy", "no-referrer");
      response_.set(http::field::cache_control, "no-cache");
    }
    response_.keep_alive(keep_alive_);
    response_.body() = std::move(reply.body);
    response_.prepare_payload();
    http::async_write(socket_, response_,
                      [self = shared_from_this()](error_code problem, std::size_t) {
                        if (self->state_ == State::kClosed) return;
                        self->response_ = {};
                        self->give_back_bytes();
                        if (problem) return self->close();
                        if (self->keep_alive_) return self->read();
                        self->left_ == 0 ? self->close() : self->throw_away();
                      });
  }

  std::shared_ptr<Server::Parts> server_;
  Socket socket_;
  Peer peer_;
  asio::steady_timer deadline_;
  std::uint64_t number_;
  boost::beast::flat_buffer buffer_{64 << 10};
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  std::string in_sending_, to_send_;  // parts of a stream: sent now, and sent next
  State state_ = State::kIdle;
  bool keep_alive_ = true, is_local_ = true;
  std::size_t bytes_ = 0;  // memory of this connection, counted in server_->bytes
  std::size_t left_ = 0;   // how many more bytes are discarded
};

void Answer::send(Reply reply) const {
  if (const auto connection = connection_.lock()) connection->send(std::move(reply));
}

void Answer::stream(std::string_view bytes) const {
  if (const auto connection = connection_.lock()) connection->stream(bytes);
}

bool Answer::is_wanted() const {
  const auto connection = connection_.lock();
  return connection && connection->is_waited_for();
}

namespace {

/// One user's connections: how many, and which to close first.
struct Share {
  std::size_t count = 0;
  Answer::Connection* oldest_idle = nullptr;
  Answer::Connection* oldest = nullptr;

  void add(Answer::Connection* one) {
    ++count;
    if (oldest == nullptr || one->number() < oldest->number()) oldest = one;
    if (one->is_idle() && (oldest_idle == nullptr || one->number() < oldest_idle->number()))
      oldest_idle = one;
  }
};

/// Makes room for one more connection of this user. A user with too many connections loses the
/// oldest idle connection; if none is idle, the new connection is refused. If all users together
/// have too many, the user with the most connections loses one.
template <typename Connections>
bool make_room(const Connections& open, const Limits& limits, uid_t uid) {
  std::map<uid_t, Share> shares;
  for (Answer::Connection* one : open) shares[one->peer().uid].add(one);
  const Share& own = shares[uid];
  if (own.count >= limits.connections_a_user) {
    if (own.oldest_idle == nullptr) return false;
    own.oldest_idle->close();
  } else if (open.size() >= limits.connections) {
    const Share& most =
        std::max_element(shares.begin(), shares.end(), [](const auto& a, const auto& b) {
          return a.second.count < b.second.count;
        })->second;
    if (most.oldest_idle == nullptr && most.count <= own.count + 1) return false;
    (most.oldest_idle != nullptr ? most.oldest_idle : most.oldest)->close();
  }
  return true;
}

std::vector<gid_t> groups_of(int socket) {
  std::vector<gid_t> groups(64);
  socklen_t size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  int problem = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size);
  if (problem != 0 && errno == ERANGE) {
    groups.resize(size / sizeof(gid_t));
    problem = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size);
  }
  groups.resize(problem == 0 ? size / sizeof(gid_t) : 0);
  return groups;
}

std::vector<gid_t> own_groups() {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(0, count)));
  return groups;
}

template <typename Parts>
void let_in(const std::shared_ptr<Parts>& parts, Socket socket) {
  ucred credentials = {};
  socklen_t size = sizeof credentials;
  const bool known =
      ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0;
  if (!known || !make_room(parts->open, parts->limits, credentials.uid)) return;
  const Peer peer{credentials.pid, credentials.uid, credentials.gid,
                  groups_of(socket.native_handle()), start_ticks_of(credentials.pid)};
  std::make_shared<Answer::Connection>(parts, std::move(socket), peer)->read();
}

/// Accepts several connections in one turn, so that callers need not wait a turn for each
/// connection of another user. But not all of them: a connection whose first call has not been read
/// yet looks idle, and could be closed.
template <typename Parts>
void accept(const std::shared_ptr<Parts>& parts) {
  parts->acceptor.async_wait(asio::socket_base::wait_read,
                             [weak = std::weak_ptr(parts)](error_code problem) {
                               const auto here = weak.lock();
                               if (!here || problem == asio::error::operation_aborted) return;
                               for (int i = 0; i < kAtOnce && !problem; ++i) {
                                 asio::local::stream_protocol::socket socket(here->loop);
                                 here->acceptor.accept(socket, problem);
                                 if (!problem) let_in(here, std::move(socket));
                               }
                               if (!problem || problem == asio::error::would_block)
                                 return accept(here);
                               // If accepting fails, for example because no descriptor is free,
                               // wait until other connections are closed.
                               here->again.expires_after(std::chrono::milliseconds(100));
                               here->again.async_wait([here](error_code stopped) {
                                 if (!stopped) accept(here);
                               });
                             });
}

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(asio::io_context& loop, const std::string& path,
                                               bool for_all, Handle handle, Rest rest,
                                               Limits limits) {
  auto file = SocketFile::make(path, for_all);
  if (!file) return std::move(file).error();
  auto parts = std::make_shared<Parts>(loop, std::move(handle), std::move(rest), limits);
  error_code problem;
  parts->acceptor.assign(asio::local::stream_protocol(), file->take_socket().release(), problem);
  parts->acceptor.non_blocking(true, problem);
  accept(parts);
  return std::unique_ptr<Server>(new Server(std::move(parts), *std::move(file)));
}

Server::Server(std::shared_ptr<Parts> parts, SocketFile file)
    : parts_(std::move(parts)), file_(std::move(file)) {}

Server::~Server() {
  try {
    error_code ignored;
    parts_->acceptor.close(ignored);
    parts_->again.cancel();
    // The connections' handlers run, and the connections are deleted, in the loop's next turn or
    // when the loop is deleted.
    for (Answer::Connection* one : parts_->open) one->close();
  } catch (const std::exception&) {  // a timer's cancel() never throws in practice
  }
}

std::size_t Server::connections() const {
  return parts_->open.size();
}

const Limits& Server::limits() const {
  return parts_->limits;
}

bool Server::make_room() {
  return serve::make_room(parts_->open, parts_->limits, ::geteuid());
}

void Server::adopt(Descriptor socket, std::string_view received) {
  Peer peer{::getpid(), ::geteuid(), ::getegid(), own_groups(), start_ticks_of(::getpid())};
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return;
  Socket adopted(parts_->loop);
  error_code problem;
  adopted.assign({address.ss_family, 0}, socket.get(), problem);
  if (problem) return;
  static_cast<void>(socket.release());
  std::make_shared<Answer::Connection>(parts_, std::move(adopted), std::move(peer))
      ->go_on(received);
}

}  // namespace berth::serve
