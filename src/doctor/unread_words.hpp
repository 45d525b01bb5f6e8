// What could not be looked at, in words for people.
#pragma once

#include <cerrno>
#include <string>

#include "doctor/fact.hpp"

namespace berth::doctor {

/// "/dev/kmsg: Operation not permitted"; of what nobody was asked, what it is.
/// Where /sys or /proc is not mounted, or was not recorded: not there says nothing then.
[[nodiscard]] inline bool is_unmounted(const Unreadable& why) {
  return why.error_number == ENOENT && (why.where == "/sys" || why.where == "/proc");
}
[[nodiscard]] std::string said_of(const Unreadable& why);

}  // namespace berth::doctor
