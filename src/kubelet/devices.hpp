// The list of devices that the kubelet's servers offer. The observer process keeps it current.
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "engines/kube_devices.hpp"

namespace berth::kubelet {

class Devices {
 public:
  /// Replaces the list. Devices that have disappeared stay in it as unhealthy. Wakes waiting
  /// threads if the list has changed.
  void put(std::vector<engines::KubeUnit> seen);
  [[nodiscard]] std::vector<engines::KubeUnit> units() const;
  [[nodiscard]] std::uint64_t version() const;
  /// Waits until the version differs from `known`, at most for this time.
  void wait(std::uint64_t known, std::chrono::milliseconds at_most) const;

 private:
  mutable std::mutex lock_;
  mutable std::condition_variable changed_;
  std::vector<engines::KubeUnit> units_;
  std::uint64_t version_ = 0;
  std::string other_;  // what was last logged about another plugin; "" if none
};

/// A function that marks units as unhealthy which pods may not get, for reasons outside the
/// drivers.
using Restrict = std::function<void(std::vector<engines::KubeUnit>&)>;

/// Keeps `devices` current: starts `program observe`, which queries the drivers, and reads one line
/// for each query. Each query forks a child. A process with gRPC's threads must not fork, so
/// another process does it. If that process ends, it is restarted after a second.
class Observer {
 public:
  Observer(Devices& devices, std::vector<std::string> words, Restrict restricted);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  /// Waits for the result of the first scan. Returns false if it did not arrive within this time.
  [[nodiscard]] bool wait_for_first(std::chrono::milliseconds at_most) const;

 private:
  void run();
  void read_lines(int file);

  Devices& devices_;
  std::vector<std::string> words_;
  Restrict restricted_;
  mutable std::mutex lock_;
  std::condition_variable ending_changed_;
  bool ending_ = false;
  pid_t child_ = -1;
  std::thread thread_;
};

}  // namespace berth::kubelet
