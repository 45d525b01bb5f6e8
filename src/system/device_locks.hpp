// Locks on devices: what keeps jobs of several users' brokers from one device, where no broker
// serves them all. A file for each device in a folder that all may write to. A broker locks it for
// itself before it gives the device away; from then on it and who has the lease (a queued job's
// keeper, a front, a program) share the lock, so that the device is theirs as long as one of them
// lives, whoever is killed. This is an agreement among users, not a fence: root's broker asks
// nobody.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace berth::system {

/// Of a broker.
class DeviceLocks {
 public:
  /// "": nothing is locked, and nobody else is seen. The folder is made where it is not there.
  explicit DeviceLocks(std::string folder) : folder_(std::move(folder)) {}

  /// Takes all that nobody else has; returns the others. A file that cannot be opened keeps nobody
  /// from a device.
  [[nodiscard]] std::vector<std::string> take(const std::vector<std::string>& units);
  /// From now on these alone: they are one's own, with the keepers that have them already.
  void keep(const std::vector<std::string>& units);

 private:
  struct Lock {
    Descriptor file;
    bool held = false;
  };
  [[nodiscard]] Lock& lock_of(const std::string& unit);

  std::string folder_;
  std::map<std::string, Lock> locks_;
};

/// Of who has the lease: until it ends. The files are those of lock_file().
[[nodiscard]] std::vector<Descriptor> share_locks(const std::vector<std::string>& files);

/// Where brokers of this machine meet.
[[nodiscard]] std::string lock_folder();
[[nodiscard]] std::string lock_file(const std::string& folder, const std::string& unit);
/// A process that has this lock, where the kernel shows it to us.
[[nodiscard]] std::optional<pid_t> holder_of(const std::string& lock_file);

}  // namespace berth::system
