// A port of the loopback device that nobody else gets until a program of ours listens on it. It is
// bound and not listening, with SO_REUSEADDR: Linux then lets another socket with SO_REUSEADDR bind
// it and listen, and gives it to nobody who asks for any port.
#pragma once

#include <cstdint>

#include "base/descriptor.hpp"

namespace berth::run {

struct HeldPort {
  Descriptor socket;  // -1 with errno where none could be had
  std::uint16_t number = 0;
};

[[nodiscard]] HeldPort hold_port();

}  // namespace berth::run
