// Reach: finds the broker that serves this user, and starts one where there is none.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/result.hpp"
#include "client/client.hpp"

namespace berth::client {

/// What starts a broker: this program, where it is `berth`.
inline constexpr const char* kThisProgram = "/proc/self/exe";

enum class IfNone {
  kStart,   // one of this user's own, which leaves when it is idle
  kFail,    // unless one went away with work left: that is followed by the next one
  kGlance,  // none is started, and none is waited for
};

/// The broker of all users where one answers, or was there a moment ago: that is waited for. Else,
/// and where BERTH_RUNTIME_DIR names another, this user's own, in the runtime folder or beside its
/// journal. Fails with kUnavailable (E0920: there is none; E0923: it could not be started, and why;
/// E0929: that of all users stays away; E0514), kPermissionDenied (E0921).
[[nodiscard]] Result<Client> reach(IfNone if_none, const std::string& program = kThisProgram);

/// A command that shows what a broker of this user's own has left, where another one was reached:
/// that of all users came later. "": nothing is left.
[[nodiscard]] std::string left_with_own(const Client& reached);

/// After the broker at that socket went away. The system's is waited for a while, as it is when it
/// is upgraded: what it knows no other does. Of this user's own the next one is started. Fails as
/// reach().
[[nodiscard]] Result<Client> reach_again(const std::string& socket,
                                         const std::string& program = kThisProgram);

/// Whether to follow a broker that went away: one after the other may be killed, but who is
/// answered by the end of ten in a row has asked what no broker survives.
class Following {
 public:
  void begin() { begun_ = std::chrono::steady_clock::now(); }
  /// The one that was asked at begin() has gone.
  [[nodiscard]] bool goes_on();

 private:
  std::chrono::steady_clock::time_point begun_;
  int in_a_row_ = 0;
};

/// Who is to hear what is waited for, when it takes a second.
void tell_of_waits(std::function<void(const std::string&)> tell);

}  // namespace berth::client
