// Where Berth keeps what lives as long as a session (sockets, folders of jobs), and what outlives
// it.
#pragma once

#include <chrono>
#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace berth::system {

/// BERTH_RUNTIME_DIR, else $XDG_RUNTIME_DIR/berth, else /run/user/UID/berth, else a folder of this
/// user in the temporary directory; always absolute. Fails with kUnavailable (E0514) where
/// BERTH_RUNTIME_DIR is relative; XDG_RUNTIME_DIR and TMPDIR do not count then.
[[nodiscard]] Result<std::string> runtime_folder();
/// BERTH_STATE_DIR, else $XDG_STATE_HOME/berth/HOSTNAME, else that in ~/.local/state: homes may be
/// shared between machines, a queue is not. Relative ones do not count.
[[nodiscard]] std::string state_folder();

/// Makes a folder that only this user may write to, or takes one that is so; `made`: it was not
/// there before. Fails with kUnavailable (E0514).
[[nodiscard]] Status make_private_folder(const std::string& path, bool& made);

/// A socket by a name that fits into an address (107 bytes), however long its path is. The name is
/// good as long as this lives.
class SocketName {
 public:
  explicit SocketName(const std::string& path);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  Descriptor folder_;
  std::string text_;
};

inline constexpr const char* kSystemSocket = "/run/berth/berth.sock";
/// How long the broker of all users is counted on: it marks the time of its socket's file every
/// second, and has 20 s to come back. 0: there is none, and was none lately.
[[nodiscard]] std::chrono::milliseconds system_broker_expected_for();
inline constexpr const char* kSystemState = "/var/lib/berth";

}  // namespace berth::system
