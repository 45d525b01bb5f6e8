#include "run/port_relay.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>

namespace berth::run {
namespace {

using std::chrono::milliseconds;

// how many bytes are buffered for each direction of a connection
constexpr std::size_t kMostBytes = 1 << 18;
constexpr milliseconds kNoDescriptor(100);  // pause after accept() failed for lack of descriptors

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool make_ready(const Descriptor& socket) {
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return ::fcntl(socket.get(), F_SETFL, O_NONBLOCK) == 0;
}

/// Connecting to a loopback port succeeds or fails immediately.
Descriptor connected(std::uint16_t port) {
  Descriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  if (!made ||
      ::connect(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      !make_ready(made))
    made.reset();
  return made;
}

/// Listens on loopback only, because other machines have no reason to connect.
Descriptor listening(std::uint16_t& port) {
  Descriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address = loopback(port);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!made || ::bind(made.get(), any, size) != 0 || ::listen(made.get(), 1024) != 0 ||
      ::getsockname(made.get(), any, &size) != 0)
    made.reset();
  port = ntohs(address.sin_port);
  return made;
}

/// Poll less often for a rank that has waited long, so that it uses little CPU time.
milliseconds pause_after(PortRelay::Clock::duration waited) {
  if (waited < std::chrono::seconds(10)) return milliseconds(5);
  return waited < std::chrono::minutes(1) ? milliseconds(50) : milliseconds(250);
}

}  // namespace

std::uint16_t PortRelay::open(std::uint16_t target, int count) {
  constexpr int kMostTries = 32;
  close();
  for (int i = 0; i < kMostTries; ++i) {
    std::uint16_t first = 0;
    listeners_.clear();
    for (int k = 0; k < count; ++k) {
      auto port = static_cast<std::uint16_t>(k == 0 ? 0 : first + k);
      Listener one{listening(port), static_cast<std::uint16_t>(target + k)};
      if (!one.socket) break;
      if (k == 0) first = port;
      listeners_.push_back(std::move(one));
    }
    if (static_cast<int>(listeners_.size()) == count) return first;
  }
  listeners_.clear();
  return 0;
}

void PortRelay::give_up() {
  listeners_.clear();
  accept_again_.reset();
  connections_.remove_if([](const Connection& one) { return !one.rank_zero; });
}

void PortRelay::close() {
  listeners_.clear();
  connections_.clear();
  waiting_since_.reset();
  accept_again_.reset();
}

pollfd PortRelay::wish(int fd, const Way& in, const Way& out) {
  pollfd made{fd, 0, 0};
  if (!in.has_ended && in.bytes.size() < kMostBytes) made.events |= POLLIN;
  if (!out.bytes.empty()) made.events |= POLLOUT;
  // Even if no events are requested, poll() keeps reporting a closed connection. So ignore the
  // descriptor.
  if (made.events == 0) made.fd = -1;
  return made;
}

void PortRelay::add_waits(std::vector<pollfd>& waits) const {
  // poll() keeps reporting a connection that cannot be accepted. So ignore the listeners for a
  // while after accept() failed.
  const bool pauses = accept_again_.has_value();
  for (const Listener& one : listeners_)
    waits.push_back({pauses ? -1 : one.socket.get(), POLLIN, 0});
  for (const Connection& one : connections_) {
    waits.push_back(wish(one.rank.get(), one.up, one.down));
    waits.push_back(wish(one.rank_zero.get(), one.down, one.up));
  }
}

void PortRelay::accept_from(const Listener& listener) {
  for (;;) {
    Descriptor socket(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket && errno == EINTR) continue;
    if (!socket) {
      const bool is_short =
          errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (is_short) accept_again_ = Clock::now() + kNoDescriptor;
      return;
    }
    if (!make_ready(socket)) continue;
    Connection& one = connections_.emplace_back();
    one.rank = std::move(socket);
    one.target = listener.target;
  }
}

void PortRelay::take(int from, Way& way, Connection& connection) {
  std::array<char, 1 << 16> room;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  while (!way.has_ended && way.bytes.size() < kMostBytes) {
    const ssize_t n = ::recv(from, room.data(), room.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) connection.is_broken = true;
    if (n < 0) return;
    if (n == 0) way.has_ended = true;
    way.bytes.append(room.data(), static_cast<std::size_t>(n));
  }
}

void PortRelay::pass(int to, Way& way, Connection& connection) {
  while (!way.bytes.empty()) {
    const ssize_t n = ::send(to, way.bytes.data(), way.bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) connection.is_broken = true;
    if (n < 0) return;
    way.bytes.erase(0, static_cast<std::size_t>(n));
  }
  if (!way.has_ended || way.is_shut) return;
  way.is_shut = true;
  ::shutdown(to, SHUT_WR);
}

void PortRelay::connect_waiting() {
  const auto now = Clock::now();
  const bool any = std::any_of(connections_.begin(), connections_.end(),
                               [](const Connection& one) { return !one.rank_zero; });
  if (!any) return waiting_since_.reset();
  if (!waiting_since_) waiting_since_ = next_try_ = now;
  if (now < next_try_) return;
  next_try_ = now + pause_after(now - *waiting_since_);
  for (Connection& one : connections_)
    if (!one.rank_zero) one.rank_zero = connected(one.target);
}

void PortRelay::act(const pollfd* first) {
  const pollfd* at = first + listeners_.size();
  for (Connection& one : connections_) {
    if ((at++)->revents != 0) take(one.rank.get(), one.up, one);
    if ((at++)->revents != 0) take(one.rank_zero.get(), one.down, one);
  }
  const bool is_due = accept_again_ && Clock::now() >= *accept_again_;
  if (is_due) accept_again_.reset();
  for (std::size_t i = 0; i < listeners_.size(); ++i)
    if (is_due || first[i].revents != 0) accept_from(listeners_[i]);
  connect_waiting();
  for (Connection& one : connections_) {
    if (one.rank_zero) pass(one.rank_zero.get(), one.up, one);
    if (one.rank_zero) pass(one.rank.get(), one.down, one);
  }
  connections_.remove_if([](const Connection& one) {
    // If a rank closed its connection before rank 0 listened, there is nothing to pass on.
    return one.is_broken || (one.up.is_shut && one.down.is_shut) ||
           (one.up.has_ended && !one.rank_zero);
  });
}

std::optional<PortRelay::Clock::time_point> PortRelay::next_try() const {
  if (!waiting_since_) return accept_again_;
  return accept_again_ ? std::min(next_try_, *accept_again_) : next_try_;
}

}  // namespace berth::run
