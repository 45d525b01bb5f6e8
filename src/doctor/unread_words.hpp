// What could not be looked at, in words for people.
#pragma once

#include <string>

#include "doctor/fact.hpp"

namespace berth::doctor {

/// "/dev/kmsg: Operation not permitted"; of what nobody was asked, what it is.
[[nodiscard]] std::string said_of(const Unreadable& why);

}  // namespace berth::doctor
