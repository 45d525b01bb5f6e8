#include "run/socket_bytes.hpp"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/descriptor.hpp"

using berth::Descriptor;
using berth::run::add_socket_bytes;
using berth::run::socket_bytes;
using berth::run::sockets_of;

namespace {

/// Two ends of a TCP connection to this machine.
struct Connection {
  Connection() {
    const Descriptor door(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* place = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(door.get(), place, length) == 0);
    REQUIRE(::getsockname(door.get(), place, &length) == 0);
    port = ntohs(address.sin_port);
    REQUIRE(::listen(door.get(), 1) == 0);
    client = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(client.get(), place, length) == 0);
    server = Descriptor(::accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(server);
  }
  Descriptor client, server;
  std::uint16_t port = 0;
};

}  // namespace

TEST_CASE("bytes over TCP are counted at both ends, and other sockets are not") {
  const auto before = sockets_of(::getpid());
  const Connection one;
  auto ours = sockets_of(::getpid());
  for (const auto socket : before) ours.erase(socket);
  REQUIRE(ours.size() == 2);
  const auto none = socket_bytes({ours});
  if (!none) return;  // a sandbox may have no sock_diag
  const std::string words(10'000, 'x');
  REQUIRE(::send(one.client.get(), words.data(), words.size(), 0) == 10'000);
  std::string got(words.size(), ' ');
  REQUIRE(::recv(one.server.get(), got.data(), got.size(), MSG_WAITALL) == 10'000);
  CHECK(*socket_bytes({ours}) >= *none + 10'000);
  // connections with this port at either end do not count
  CHECK(socket_bytes({ours, {one.port}}) == 0);
  CHECK(socket_bytes({}) == 0);
  CHECK(sockets_of(::getpid(), "/nonexistent").empty());
}

TEST_CASE("an answer that is cut or changed never reads beyond its end") {
  std::uint64_t bytes = 0;
  std::string answer(200, '\0');
  for (std::size_t length = 0; length < answer.size(); ++length)
    CHECK_FALSE((add_socket_bytes(std::string_view(answer).substr(0, length), {{1}}, bytes) &&
                 length >= 16));
  answer[0] = static_cast<char>(199);
  answer[4] = 20;  // SOCK_DIAG_BY_FAMILY
  for (int at = 16; at < 200; ++at)
    for (const int value : {0, 1, 4, 255}) {
      std::string changed = answer;
      changed[static_cast<std::size_t>(at)] = static_cast<char>(value);
      static_cast<void>(add_socket_bytes(changed, {{0, 1}}, bytes));
    }
  CHECK(bytes == 0);
}
