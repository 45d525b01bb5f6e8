// OtherBrokers: which units the other brokers of this machine lease, so that two brokers never
// lease the same unit. A user's broker locks its units, and leases none while the system broker
// runs. The system broker waits only for units that were leased before it started.
#pragma once

#include <string>
#include <vector>

#include "serve/daemon.hpp"
#include "system/device_locks.hpp"

namespace berth::serve {

class OtherBrokers {
 public:
  explicit OtherBrokers(const DaemonOptions& options)
      : options_(options), locks_(options.for_all ? "" : options.lock_folder) {}

  /// Whether the system broker runs, so that this broker starts nothing.
  [[nodiscard]] bool gives_way() const;
  /// Returns the units that other brokers lease. If this is a user's broker, it also locks those of
  /// `units` that no other broker has locked.
  [[nodiscard]] std::vector<std::string> leased(const std::vector<std::string>& units);
  /// Releases the locks of all units that this broker does not lease.
  void keep(const std::vector<std::string>& leased_here) { locks_.keep(leased_here); }
  /// For the system broker: finds the units that users' brokers leased before it started.
  /// Only the first call does something.
  void find_earlier(const std::vector<std::string>& units,
                    const std::vector<std::string>& leased_here);

 private:
  const DaemonOptions& options_;
  // Only users' brokers use these locks. The system broker ignores them, because any user could
  // take a lock and block a device for everyone.
  system::DeviceLocks locks_;
  /// Units that users' brokers leased before the system broker started. They stay reserved until
  /// they are free. Locks taken later are not considered.
  std::vector<std::string> earlier_;
  bool has_looked_ = false;
};

}  // namespace berth::serve
