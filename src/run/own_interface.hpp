// The network interface that Gloo must use on several nodes.
//
// Gloo listens on the address of the machine's own name. Debian and others write 127.0.1.1 for that
// name into /etc/hosts; then Gloo tells the other nodes an address where they reach themselves, and
// the first collective fails. NCCL does not ask for the name, and needs no variable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::run {

/// An address of an interface, as text: "10.0.0.5", "eth0".
struct InterfaceAddress {
  std::string address, interface;
};

/// The interface that Gloo must use: the one with the address through which this machine reaches
/// node 0. nullopt if the machine's own name means other addresses than loopback, so that Gloo
/// needs no variable, or if the interface is not known. Pure.
[[nodiscard]] std::optional<std::string> interface_for_gloo(
    const std::vector<std::string>& addresses_of_own_name, std::string_view own_address,
    const std::vector<InterfaceAddress>& interfaces);

/// The interface that Gloo must use on this machine. `node_0` is the address or name of node 0.
[[nodiscard]] std::optional<std::string> interface_for_gloo(const std::string& node_0);

}  // namespace berth::run
