#include "run/port_relay.hpp"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>

namespace berth::run {
namespace {

/// Sets the limit of open descriptors so that none can be opened, until it is destroyed.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const Descriptor lowest(::dup(0));
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(lowest.get());
    ::setrlimit(RLIMIT_NOFILE, &now);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

Descriptor listening(std::uint16_t& port) {
  Descriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(made.get(), any, size) == 0);
  REQUIRE(::listen(made.get(), 8) == 0);
  REQUIRE(::getsockname(made.get(), any, &size) == 0);
  port = ntohs(address.sin_port);
  return made;
}

Descriptor connected(std::uint16_t port) {
  Descriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return made;
}

/// Runs one turn of the supervisor's loop. Returns what poll() returned.
int turn(PortRelay& relay, int milliseconds) {
  std::vector<pollfd> waits;
  relay.add_waits(waits);
  const int ready = ::poll(waits.data(), waits.size(), milliseconds);
  relay.act(waits.data());
  return ready;
}

TEST_CASE("A connection that cannot be accepted for lack of descriptors is tried again later") {
  std::uint16_t target = 0;
  const Descriptor rank_zero = listening(target);
  PortRelay relay;
  const std::uint16_t port = relay.open(target, 1);
  REQUIRE(port != 0);
  const Descriptor rank = connected(port);
  REQUIRE(::send(rank.get(), "hello", 5, 0) == 5);
  {
    const NoDescriptors none;
    CHECK(turn(relay, 10'000) == 1);
    REQUIRE(relay.next_try());
    std::vector<pollfd> waits;
    relay.add_waits(waits);
    // poll() reports nothing, so the caller's loop can sleep
    CHECK(::poll(waits.data(), waits.size(), 0) == 0);
  }
  for (int i = 0; i < 10'000; ++i) {
    pollfd arrived{rank_zero.get(), POLLIN, 0};
    if (::poll(&arrived, 1, 1) == 1) break;
    turn(relay, 1);
  }
  const Descriptor accepted(::accept(rank_zero.get(), nullptr, nullptr));
  REQUIRE(accepted);
  turn(relay, 0);
  std::array<char, 8> words{};
  CHECK(::recv(accepted.get(), words.data(), words.size(), 0) == 5);
}

TEST_CASE("A relay whose rank 0 has ended waits for nothing") {
  std::uint16_t target = 0;
  const Descriptor rank_zero = listening(target);
  PortRelay relay;
  const std::uint16_t port = relay.open(target, 1);
  const Descriptor rank = connected(port);
  {
    const NoDescriptors none;
    turn(relay, 10'000);
  }
  relay.give_up();
  CHECK_FALSE(relay.next_try());
}

}  // namespace
}  // namespace berth::run
