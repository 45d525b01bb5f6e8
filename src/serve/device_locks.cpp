#include "serve/device_locks.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/environment_variables.hpp"

namespace berth::serve {
namespace {

/// A uuid or an address, as a file's name.
std::string file_name(const std::string& unit) {
  std::string name = unit;
  for (char& c : name)
    if (c == '/' || c == '\0') c = '_';
  return name + ".lock";
}

/// Another user's file may not be opened with O_CREAT in a sticky folder (fs.protected_regular),
/// and one's own must be readable by all.
int open_shared(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
  const int there = ::open(path.c_str(), kFlags);
  if (there >= 0 || errno != ENOENT) return there;
  const int made = ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0644);
  if (made >= 0) {
    static_cast<void>(::fchmod(made, 0644));
    return made;
  }
  return errno == EEXIST ? ::open(path.c_str(), kFlags) : made;
}

}  // namespace

std::string lock_folder() {
  if (const auto simulated = env_nonempty("BERTH_SIM_DIR")) return *simulated + "/locks";
  return ::access("/run/lock", W_OK) == 0 ? "/run/lock/berth" : "/tmp/berth-locks";
}

bool DeviceLocks::lock(const std::string& unit) {
  Lock& mine = locks_[unit];
  if (mine.held || folder_.empty()) return true;
  if (!mine.file) {
    if (::mkdir(folder_.c_str(), 0777) == 0) static_cast<void>(::chmod(folder_.c_str(), 01777));
    mine.file.reset(open_shared(folder_ + "/" + file_name(unit)));
    if (!mine.file) return true;
  }
  mine.held = ::flock(mine.file.get(), LOCK_EX | LOCK_NB) == 0;
  return mine.held;
}

std::vector<std::string> DeviceLocks::take(const std::vector<std::string>& units) {
  std::vector<std::string> of_others;
  for (const std::string& unit : units)
    if (!lock(unit)) of_others.push_back(unit);
  return of_others;
}

void DeviceLocks::keep(const std::vector<std::string>& units) {
  for (auto& [unit, mine] : locks_) {
    if (!mine.held || std::find(units.begin(), units.end(), unit) != units.end()) continue;
    ::flock(mine.file.get(), LOCK_UN);
    mine.held = false;
  }
  static_cast<void>(take(units));
}

}  // namespace berth::serve
