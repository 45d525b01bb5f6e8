// Describes in words which fact was unreadable.
#pragma once

#include <cerrno>
#include <string>

#include "doctor/facts/fact.hpp"

namespace berth::doctor {

/// Whether /sys or /proc was not mounted or not recorded. A missing file then proves nothing.
[[nodiscard]] inline bool is_unmounted(const Unreadable& why) {
  return why.error_number == ENOENT && (why.where == "/sys" || why.where == "/proc");
}
[[nodiscard]] std::string said_of(const Unreadable& why);

}  // namespace berth::doctor
