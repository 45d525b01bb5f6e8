// The folders for files that live as long as a session (sockets, job folders), and for files that
// outlive it.
#pragma once

#include <chrono>
#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace berth::system {

/// The folder for sockets and jobs, always absolute. Uses the first of these that is set or exists:
/// BERTH_RUNTIME_DIR, $XDG_RUNTIME_DIR/berth, /run/user/UID/berth, this user's folder in the
/// temporary directory. Ignores a relative XDG_RUNTIME_DIR or TMPDIR. Fails with kUnavailable
/// (E0514) if BERTH_RUNTIME_DIR or BERTH_STATE_DIR is relative.
[[nodiscard]] Result<std::string> runtime_folder();
/// The folder for files that outlive the session. Uses the first of these that is set:
/// BERTH_STATE_DIR, $XDG_STATE_HOME/berth/HOSTNAME, ~/.local/state/berth/HOSTNAME. Machines may
/// share a home folder but not a queue, so the path contains HOSTNAME. Relative paths are ignored.
[[nodiscard]] std::string state_folder();

/// Creates a folder that only this user can write to, or checks an existing one. Sets `made` if it
/// created the folder. Fails with kUnavailable (E0514). `choose` is the start of a command that
/// chooses another folder; the error's hint shows it.
[[nodiscard]] Status make_private_folder(const std::string& path, bool& made,
                                         const std::string& choose = "export BERTH_RUNTIME_DIR=");

/// A path for a socket that fits into an address (107 bytes), even if the socket's real path is
/// longer. Valid during the lifetime of this object.
class SocketName {
 public:
  explicit SocketName(const std::string& path);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  Descriptor folder_;
  std::string text_;
};

inline constexpr const char* kSystemSocket = "/run/berth/berth.sock";
/// How long to wait for the system broker to return. The broker updates the time of its socket file
/// every second, and has 20 s for a restart. Returns 0 if no system broker ran recently.
[[nodiscard]] std::chrono::milliseconds system_broker_expected_for();
inline constexpr const char* kSystemState = "/var/lib/berth";

}  // namespace berth::system
