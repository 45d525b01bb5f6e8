// Writes to the terminals of users, as write(1) and wall(1) do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace berth::system {

/// The terminals on which to notify a process's owner: the terminal of the process, and those on
/// which the user is logged in. Paths such as "/dev/pts/3", without duplicates.
[[nodiscard]] std::vector<std::string> terminals_of(const Roots& roots, const std::string& utmp,
                                                    std::int64_t pid, std::string_view user);
inline constexpr const char* kUtmp = "/run/utmp";

/// Writes a sentence to a terminal. Never blocks: skips a terminal that accepts no data now, or
/// that belongs to another user. Returns true if the sentence was written.
bool tell_terminal(const std::string& path, std::uint32_t owner, std::string_view sentence);

}  // namespace berth::system
