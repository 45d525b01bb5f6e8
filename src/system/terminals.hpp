// The terminals of people, as write(1) and wall(1) use them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace berth::system {

/// Where the process's owner can be told something: the process's own terminal, and those on which
/// that user is logged in; "/dev/pts/3". Each once.
[[nodiscard]] std::vector<std::string> terminals_of(const Roots& roots, const std::string& utmp,
                                                    std::int64_t pid, std::string_view user);
inline constexpr const char* kUtmp = "/run/utmp";

/// Never waits: where the terminal takes nothing at this moment, it is not told. Nothing is written
/// to what is not a terminal of this user's. True: it was.
bool tell_terminal(const std::string& path, std::uint32_t owner, std::string_view sentence);

}  // namespace berth::system
