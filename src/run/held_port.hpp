// A loopback port reserved until one of our programs listens on it. The socket is bound with
// SO_REUSEADDR but does not listen. Linux then lets another socket with SO_REUSEADDR bind the port
// and listen, but never assigns it to a socket that asks for any port.
#pragma once

#include <cstdint>

#include "base/descriptor.hpp"

namespace berth::run {

struct HeldPort {
  Descriptor socket;  // the socket that holds the port; -1 with errno if no port is available
  std::uint16_t number = 0;
};

/// Reserves the port `wanted`; 0: any free port.
[[nodiscard]] HeldPort hold_port(std::uint16_t wanted = 0);
/// Reserves the port `wanted`. Fails if another socket has bound it, even one that does not listen.
[[nodiscard]] HeldPort hold_unused_port(std::uint16_t wanted);

}  // namespace berth::run
