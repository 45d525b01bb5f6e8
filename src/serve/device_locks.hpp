// DeviceLocks: what keeps the brokers of several users from giving one device twice, where no
// broker serves them all. A file for each device in a folder that all may write to; who holds its
// lock has leases on the device. The kernel gives it back when a broker dies. This is an agreement
// among users, not a fence: only root's broker promises more.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace berth::serve {

class DeviceLocks {
 public:
  /// "": nothing is locked, and nobody else is seen. The folder is made where it is not there.
  explicit DeviceLocks(std::string folder) : folder_(std::move(folder)) {}

  /// Takes all that nobody else has; returns the others. A file that cannot be opened keeps nobody
  /// from a device.
  [[nodiscard]] std::vector<std::string> take(const std::vector<std::string>& units);
  /// From now on these alone.
  void keep(const std::vector<std::string>& units);

 private:
  struct Lock {
    Descriptor file;
    bool held = false;
  };
  [[nodiscard]] bool lock(const std::string& unit);

  std::string folder_;
  std::map<std::string, Lock> locks_;
};

/// Where brokers of this machine meet.
[[nodiscard]] std::string lock_folder();

}  // namespace berth::serve
