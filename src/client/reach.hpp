// Reach: finds the broker that serves this user, or starts one.
#pragma once

#include <chrono>
#include <string>

#include "base/result.hpp"
#include "client/client.hpp"

namespace berth::client {

/// The program that is run to start a broker: the running program itself, if that is `berth`.
inline constexpr const char* kThisProgram = "/proc/self/exe";

enum class IfNone {
  kStart,   // start a broker for this user, which exits when idle
  kFail,    // fail, unless a broker left unfinished work; then start a broker
  kGlance,  // fail, without starting a broker or waiting for one
};

/// Connects to the system broker if it answers. Waits for it if it ran a moment ago. If neither is
/// true, or if BERTH_RUNTIME_DIR is set, connects to this user's own broker. The socket of that
/// broker is in the runtime folder or beside its journal. Fails with kUnavailable (E0920: there is
/// no broker; E0923: no broker could be started; E0929: the system broker did not return; E0514)
/// and kPermissionDenied (E0921).
[[nodiscard]] Result<Client> reach(IfNone if_none, const std::string& program = kThisProgram);

/// Asks the broker of this state folder to exit, so that this process can replace it. The broker
/// agrees if it exits when idle, such as a broker that `berth run` started. Fails with the errors
/// of Client::connect() and Client::call(), and with the broker's refusal (E1089: it does not exit
/// when idle; E0911: it is of an earlier release).
[[nodiscard]] Status ask_to_hand_over(const std::string& state_folder);

/// `reached` may be a system broker that was started after this user's own broker. If the user's
/// own broker still has unfinished jobs, returns a command that shows them. If not, returns "".
[[nodiscard]] std::string left_with_own(const Client& reached);

/// Reconnects after the broker at that socket disconnected. Waits for the system broker, which may
/// be restarting for an upgrade; no other broker knows its jobs. In place of a user's own broker,
/// starts a new broker. Fails with the errors of reach().
[[nodiscard]] Result<Client> reach_again(const std::string& socket,
                                         const std::string& program = kThisProgram);

/// Decides whether to repeat a call with the next broker. A single broker may be killed, but if ten
/// in succession die during a call, the call itself probably kills them.
class Following {
 public:
  void begin() { begun_ = std::chrono::steady_clock::now(); }
  /// Call it when the broker died during a call. Returns true if the call should be repeated.
  [[nodiscard]] bool goes_on();

 private:
  std::chrono::steady_clock::time_point begun_;
  int in_a_row_ = 0;
};

}  // namespace berth::client
