// The devices that the servers offer, as the observer process last reported them. Thread-safe.
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
  /// Adds devices that have disappeared as unhealthy; wakes waiting threads if anything has
  /// changed.
  void put(std::vector<engines::KubeUnit> seen);
  [[nodiscard]] std::vector<engines::KubeUnit> units() const;
  [[nodiscard]] std::uint64_t version() const;
  /// Waits until the version differs from `known`, or the time is over.
  void wait(std::uint64_t known, std::chrono::milliseconds at_most) const;

 private:
  mutable std::mutex lock_;
  mutable std::condition_variable changed_;
  std::vector<engines::KubeUnit> units_;
  std::uint64_t version_ = 0;
  std::string other_;  // the other plugin that was last reported
};

/// Marks units that pods may not get, for reasons that the drivers do not know.
using Restrict = std::function<void(std::vector<engines::KubeUnit>&)>;

/// Keeps `devices` current: starts `program observe`, which queries the drivers, and reads one line
/// for each query. A query forks, which a process with gRPC's threads must not do, so it is done in
/// another process. If that process ends, it is restarted after a second.
class Observer {
 public:
  Observer(Devices& devices, std::vector<std::string> words, Restrict restricted);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  /// Whether the first scan arrived within this time.
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
