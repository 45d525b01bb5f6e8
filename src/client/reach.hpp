// Reach: finds the broker that serves this user, and starts one where there is none.
#pragma once

#include <string>

#include "base/result.hpp"
#include "client/client.hpp"

namespace berth::client {

/// What starts a broker: this program, where it is `berth`.
inline constexpr const char* kThisProgram = "/proc/self/exe";

enum class IfNone {
  kStart,  // one of this user's own, which leaves when it is idle
  kFail,
};

/// The system's broker where one answers (and BERTH_RUNTIME_DIR names no other), else this user's
/// own. Fails with kUnavailable (E0920: there is none, E0923: it could not be started, and why;
/// E0514), kPermissionDenied (E0921).
[[nodiscard]] Result<Client> reach(IfNone if_none, const std::string& program = kThisProgram);

/// After the broker at that socket went away. The system's is waited for a while, as it is when it
/// is upgraded: what it knows no other does. Of this user's own the next one is started. Fails as
/// reach().
[[nodiscard]] Result<Client> reach_again(const std::string& socket,
                                         const std::string& program = kThisProgram);

}  // namespace berth::client
