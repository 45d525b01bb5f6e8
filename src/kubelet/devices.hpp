// The devices that the servers offer, as the observer process saw them last. Any thread may call.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "engines/kube_devices.hpp"

namespace berth::kubelet {

class Devices {
 public:
  /// Adds what is missing from before as not healthy; a change wakes those who wait.
  void put(std::vector<engines::KubeUnit> seen);
  [[nodiscard]] std::vector<engines::KubeUnit> units() const;
  [[nodiscard]] std::uint64_t version() const;
  /// Until the version is another one than `known`, or the time is over.
  void wait(std::uint64_t known, std::chrono::milliseconds at_most) const;

 private:
  mutable std::mutex lock_;
  mutable std::condition_variable changed_;
  std::vector<engines::KubeUnit> units_;
  std::uint64_t version_ = 0;
};

/// Keeps `devices` fresh: starts `program observe`, which asks the drivers, and reads a line a
/// look. A look forks, which a process with gRPC's threads must not; so it is another process. One
/// that ends is started again after a second.
class Observer {
 public:
  Observer(Devices& devices, std::vector<std::string> words);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  /// Whether a first look was read within that time.
  [[nodiscard]] bool wait_for_first(std::chrono::milliseconds at_most) const;

 private:
  void run();
  void read_lines(int file);

  Devices& devices_;
  std::vector<std::string> words_;
  mutable std::mutex lock_;
  std::condition_variable ending_changed_;
  bool ending_ = false;
  pid_t child_ = -1;
  std::thread thread_;
};

}  // namespace berth::kubelet
