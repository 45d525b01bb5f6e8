#include "run/own_interface.hpp"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/descriptor.hpp"

namespace berth::run {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// Resolves the name for a UDP socket, because connecting such a socket sends no packet.
Found resolve(const std::string& name) {
  constexpr const char* kAnyPort = "9";
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), kAnyPort, &wanted, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

std::string text_of(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> words{};
  if (::getnameinfo(address, length, words.data(), words.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return {};
  return words.data();
}

std::vector<std::string> addresses_of_own_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  const Found found = resolve(name.data());
  std::vector<std::string> addresses;
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next)
    addresses.push_back(text_of(one->ai_addr, one->ai_addrlen));
  return addresses;
}

/// The address that packets to `target` have as their source.
std::string own_address_towards(const std::string& target) {
  const Found found = resolve(target);
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    const Descriptor wire(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own = {};
    socklen_t length = sizeof own;
    auto* place = reinterpret_cast<sockaddr*>(&own);  // NOLINT: the interface of the C library
    if (wire && ::connect(wire.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        ::getsockname(wire.get(), place, &length) == 0)
      return text_of(place, length);
  }
  return {};
}

std::vector<InterfaceAddress> interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    found.push_back({text_of(one->ifa_addr, length), one->ifa_name});
  }
  return found;
}

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1" || address.starts_with("::ffff:127.");
}

}  // namespace

std::optional<std::string> interface_for_gloo(const std::vector<std::string>& addresses_of_own_name,
                                              std::string_view own_address,
                                              const std::vector<InterfaceAddress>& interfaces) {
  const bool is_only_loopback =
      !addresses_of_own_name.empty() &&
      std::all_of(addresses_of_own_name.begin(), addresses_of_own_name.end(), is_loopback);
  if (!is_only_loopback || own_address.empty() || is_loopback(own_address)) return std::nullopt;
  for (const InterfaceAddress& one : interfaces)
    if (one.address == own_address) return one.interface;
  return std::nullopt;
}

std::optional<std::string> interface_for_gloo(const std::string& node_0) {
  const auto addresses = addresses_of_own_name();
  if (addresses.empty()) return std::nullopt;
  return interface_for_gloo(addresses, own_address_towards(node_0), interfaces());
}

}  // namespace berth::run
