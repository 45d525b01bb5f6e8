#include "system/device_locks.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/environment_variables.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::system {
namespace {

/// Opens a lock file. First tries without O_CREAT: with fs.protected_regular, O_CREAT fails for
/// another user's file in a sticky folder. This user's own lock files must be readable by all
/// users.
Descriptor open_shared(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
  const auto slash = path.rfind('/');
  const std::string folder = path.substr(0, slash), name = path.substr(slash + 1);
  if (::mkdir(folder.c_str(), 0777) == 0) static_cast<void>(::chmod(folder.c_str(), 01777));
  // O_NOFOLLOW: another user may have put a link here that leads to a folder that only root can
  // write to.
  const Descriptor within(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  Descriptor file(::openat(within.get(), name.c_str(), kFlags));
  if (file || errno != ENOENT) return file;
  file.reset(::openat(within.get(), name.c_str(), kFlags | O_CREAT | O_EXCL, 0644));
  if (file)
    static_cast<void>(::fchmod(file.get(), 0644));
  else if (errno == EEXIST)
    file.reset(::openat(within.get(), name.c_str(), kFlags));
  return file;
}

}  // namespace

std::string lock_folder() {
  if (const auto simulated = env_nonempty("BERTH_SIM_DIR")) return *simulated + "/locks";
  return ::access("/run/lock", W_OK) == 0 ? "/run/lock/berth" : "/tmp/berth-locks";
}

std::string lock_file(const std::string& folder, const std::string& unit) {
  std::string name = unit;  // uuid or address of the device
  for (char& c : name)
    if (c == '/' || c == '\0') c = '_';
  return folder + "/" + name + ".lock";
}

DeviceLocks::Lock& DeviceLocks::lock_of(const std::string& unit) {
  Lock& mine = locks_[unit];
  if (!mine.file && !folder_.empty()) mine.file = open_shared(lock_file(folder_, unit));
  return mine;
}

std::vector<std::string> DeviceLocks::take(const std::vector<std::string>& units) {
  std::vector<std::string> of_others;
  for (const std::string& unit : units) {
    Lock& mine = lock_of(unit);
    if (mine.held || !mine.file) continue;
    // The second flock() makes the lock shared, and releases it for a moment. If another broker
    // takes it then, the call fails.
    mine.held = ::flock(mine.file.get(), LOCK_EX | LOCK_NB) == 0 &&
                ::flock(mine.file.get(), LOCK_SH | LOCK_NB) == 0;
    if (!mine.held) of_others.push_back(unit);
  }
  return of_others;
}

void DeviceLocks::keep(const std::vector<std::string>& units) {
  for (auto& [unit, mine] : locks_) {
    if (!mine.held || std::find(units.begin(), units.end(), unit) != units.end()) continue;
    ::flock(mine.file.get(), LOCK_UN);
    mine.held = false;
  }
  for (const std::string& unit : units)
    if (Lock& mine = lock_of(unit); !mine.held && mine.file)
      mine.held = ::flock(mine.file.get(), LOCK_SH | LOCK_NB) == 0;
}

std::vector<Descriptor> share_locks(const std::vector<std::string>& files) {
  std::vector<Descriptor> locks;
  for (const std::string& path : files) {
    locks.push_back(open_shared(path));
    if (locks.back()) ::flock(locks.back().get(), LOCK_SH | LOCK_NB);
  }
  return locks;
}

/// The process that holds a lock, from a line such as "3: FLOCK  ADVISORY  WRITE 4711 00:2c:1234 0
/// EOF".
std::optional<pid_t> holder_of(const std::string& lock_file) {
  struct stat status = {};
  if (::stat(lock_file.c_str(), &status) != 0) return std::nullopt;
  const auto locks = slurp("/proc/locks", 1U << 22U);
  if (!locks) return std::nullopt;
  const std::string place = fmt::format(" {:02x}:{:02x}:{} ", ::major(status.st_dev),
                                        ::minor(status.st_dev), status.st_ino);
  for (const std::string_view line : split(*locks, '\n')) {
    const auto at = line.find(place);
    if (at == std::string_view::npos || line.find("FLOCK") == std::string_view::npos) continue;
    const auto begin = line.rfind(' ', at - 1);
    if (const auto pid = to_number(line.substr(begin + 1, at - begin - 1)); pid && *pid > 0)
      return static_cast<pid_t>(*pid);
  }
  return std::nullopt;
}

}  // namespace berth::system
