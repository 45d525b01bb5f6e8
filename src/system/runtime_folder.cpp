#include "system/runtime_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/environment_variables.hpp"
#include "base/error_words.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::system {
namespace {

Error unusable(const std::string& path, const std::string& why, std::string hint = {}) {
  return {ErrorCode::kUnavailable, "E0514",
          text("cannot use the folder {}: {}", printable(path), why), std::move(hint)};
}

Error unusable(const std::string& path, int problem) {
  return unusable(path, error_words(problem));
}

/// Fails unless the folder exists and only this user can write to it.
Status check_private(const std::string& path, const std::string& choose) {
  struct stat status = {};
  // Use lstat(), which does not follow a link. In a shared temporary folder, the path may be
  // another user's link.
  if (::lstat(path.c_str(), &status) != 0) return unusable(path, errno);
  const std::string shown = printable(path);
  if (!S_ISDIR(status.st_mode))
    return unusable(path, text("it is not a folder"), "ls -ld " + shown);
  if (status.st_uid != ::geteuid())
    return unusable(path, text("it belongs to another user (uid {})", status.st_uid),
                    "ls -ld " + shown);
  if ((status.st_mode & 022) == 0) return Done{};
  // A folder with the sticky bit, such as /tmp, is meant to be shared.
  const bool shared = (status.st_mode & S_ISVTX) != 0;
  return unusable(path, text("others can write to it"),
                  shared ? choose + shown + "/berth" : "chmod go-w " + shown);
}

bool is_folder(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// The path in a variable. Returns "" for a relative path, because after a cd it would mean another
/// folder.
std::string absolute(const char* name) {
  const std::string path = env_nonempty(name).value_or("");
  return path.substr(0, 1) == "/" ? path : "";
}

/// The name of the machine, as a path component.
std::string hostname() {
  std::string name = read_line("/proc/sys/kernel/hostname").value_or("");
  for (char& c : name)
    if (c == '/') c = '_';
  return name.empty() || name.front() == '.' ? "localhost" : name;
}

}  // namespace

Status make_private_folder(const std::string& path, bool& made, const std::string& choose) {
  made = ::mkdir(path.c_str(), 0700) == 0;
  if (made) return Done{};
  return errno == EEXIST ? check_private(path, choose) : Status(unusable(path, errno));
}

Result<std::string> runtime_folder() {
  // The socket and the journal must belong to the same broker, so BERTH_STATE_DIR is checked as
  // well.
  if (const auto given = env_nonempty("BERTH_STATE_DIR"); given && given->front() != '/')
    return unusable(*given, text("BERTH_STATE_DIR must begin with a slash"),
                    "export BERTH_STATE_DIR=\"$PWD\"/" + printable(*given));
  if (const auto given = env_nonempty("BERTH_RUNTIME_DIR")) {
    if (given->front() == '/') return *given;
    return unusable(*given, text("BERTH_RUNTIME_DIR must begin with a slash"),
                    "export BERTH_RUNTIME_DIR=\"$PWD\"/" + printable(*given));
  }
  const std::string uid = std::to_string(::geteuid());
  const std::string session = absolute("XDG_RUNTIME_DIR");
  if (!session.empty()) return session + "/berth";
  if (is_folder("/run/user/" + uid)) return "/run/user/" + uid + "/berth";
  const std::string temporary = absolute("TMPDIR");
  return (temporary.empty() ? "/tmp" : temporary) + "/berth-" + uid;
}

std::string state_folder() {
  if (std::string given = absolute("BERTH_STATE_DIR"); !given.empty()) return given;
  std::string base = absolute("XDG_STATE_HOME");
  if (base.empty()) {
    const std::string home = absolute("HOME");
    base = home.empty() ? "/var/tmp/berth-" + std::to_string(::geteuid()) : home + "/.local/state";
  }
  return base + "/berth/" + hostname();
}

std::chrono::milliseconds system_broker_expected_for() {
  using std::chrono::milliseconds;
  constexpr milliseconds kRestart(20'000);
  struct stat status = {};
  timespec now = {};
  if (::stat(kSystemSocket, &status) != 0 || ::clock_gettime(CLOCK_REALTIME, &now) != 0)
    return milliseconds(0);
  const milliseconds away((now.tv_sec - status.st_mtim.tv_sec) * 1000 +
                          (now.tv_nsec - status.st_mtim.tv_nsec) / 1'000'000);
  // If the broker has been away for more than 20 s, it is not expected to return. A time in the
  // future means that the clock was changed.
  return away < -kRestart || away > kRestart ? milliseconds(0)
                                             : std::min(kRestart, kRestart - away);
}

SocketName::SocketName(const std::string& path) : text_(path) {
  constexpr std::size_t kLongest = 107;  // the size of sun_path without the final NUL
  const auto slash = path.rfind('/');
  if (path.size() <= kLongest || slash == std::string::npos) return;
  folder_.reset(::open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder_) text_ = "/proc/self/fd/" + std::to_string(folder_.get()) + path.substr(slash);
}

}  // namespace berth::system
