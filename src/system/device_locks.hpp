// Device locks prevent the brokers of several users from leasing the same device when there is no
// system broker. Each device has a file in a folder that every user can write to. A broker locks
// the file exclusively before it leases the device, and then shares the lock with the lease's
// holder (a keeper, a front or a program). So the device stays locked as long as the broker or the
// holder lives, even if one of them is killed. The locks are advisory; root's broker ignores them.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace berth::system {

/// The locks that a broker holds.
class DeviceLocks {
 public:
  /// Uses the locks in this folder, and creates the folder if it is missing. If `folder` is "",
  /// this object locks nothing and sees no other brokers.
  explicit DeviceLocks(std::string folder) : folder_(std::move(folder)) {}

  /// Locks the units that no other broker has locked. Returns the other units. If a lock file
  /// cannot be opened, its device counts as free.
  [[nodiscard]] std::vector<std::string> take(const std::vector<std::string>& units);
  /// Releases all locks except those of these units. If this broker has no lock of a unit, takes a
  /// shared lock. That fails only if another broker has an exclusive lock of the unit.
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

/// Takes shared locks on these files, whose paths are from lock_file(). The locks are for the
/// holder of a lease, who keeps the descriptors until it exits.
[[nodiscard]] std::vector<Descriptor> share_locks(const std::vector<std::string>& files);

/// The folder that all brokers of this machine share.
[[nodiscard]] std::string lock_folder();
[[nodiscard]] std::string lock_file(const std::string& folder, const std::string& unit);
/// A process that holds this lock, if the kernel shows it.
[[nodiscard]] std::optional<pid_t> holder_of(const std::string& lock_file);

}  // namespace berth::system
