#include "run/held_port.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

namespace berth::run {
namespace {

enum class Reuse { kBeforeBind, kAfterBind };

bool allow_reuse(const Descriptor& socket) {
  const int yes = 1;
  return ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0;
}

/// Binds the socket, and stores the address that it got.
template <typename Address>
bool bind_to(const Descriptor& made, Address& address, Reuse reuse) {
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  return made && (reuse == Reuse::kAfterBind || allow_reuse(made)) &&
         ::bind(made.get(), any, size) == 0 && allow_reuse(made) &&
         ::getsockname(made.get(), any, &size) == 0;
}

/// Reserves the port on all addresses of IPv4 and IPv6, because programs listen on all of them.
HeldPort hold_both(std::uint16_t wanted, Reuse reuse) {
  Descriptor made(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int no = 0;
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(wanted);
  if (!made || ::setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) != 0 ||
      !bind_to(made, any, reuse))
    return {};
  return {std::move(made), ntohs(any.sin6_port)};
}

HeldPort hold_ipv4(std::uint16_t wanted, Reuse reuse) {
  Descriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(wanted);
  if (!bind_to(made, any, reuse)) return {};
  return {std::move(made), ntohs(any.sin_port)};
}

HeldPort hold(std::uint16_t wanted, Reuse reuse) {
  HeldPort held = hold_both(wanted, reuse);
  return held.socket ? std::move(held) : hold_ipv4(wanted, reuse);
}

}  // namespace

HeldPort hold_port(std::uint16_t wanted) {
  return hold(wanted, Reuse::kBeforeBind);
}

HeldPort hold_unused_port(std::uint16_t wanted) {
  return hold(wanted, Reuse::kAfterBind);
}

}  // namespace berth::run
