#include "run/held_port.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

namespace berth::run {
namespace {

Descriptor reusable(int family) {
  Descriptor made(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (made && ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0)
    made.reset();
  return made;
}

/// On every address of both families, because programs listen there.
HeldPort hold_both(std::uint16_t wanted) {
  Descriptor made = reusable(AF_INET6);
  const int no = 0;
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(wanted);
  socklen_t size = sizeof any;
  auto* const address = reinterpret_cast<sockaddr*>(&any);
  if (!made || ::setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) != 0 ||
      ::bind(made.get(), address, size) != 0 || ::getsockname(made.get(), address, &size) != 0)
    return {};
  return {std::move(made), ntohs(any.sin6_port)};
}

HeldPort hold_ipv4(std::uint16_t wanted) {
  Descriptor made = reusable(AF_INET);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(wanted);
  socklen_t size = sizeof any;
  auto* const address = reinterpret_cast<sockaddr*>(&any);
  if (!made || ::bind(made.get(), address, size) != 0 ||
      ::getsockname(made.get(), address, &size) != 0)
    return {};
  return {std::move(made), ntohs(any.sin_port)};
}

}  // namespace

HeldPort hold_port(std::uint16_t wanted) {
  HeldPort held = hold_both(wanted);
  return held.socket ? std::move(held) : hold_ipv4(wanted);
}

}  // namespace berth::run
