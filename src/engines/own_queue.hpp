// A file in the state folder of `berth-k8s` that lists the GPUs of a Kubernetes node in Berth's own
// queue. No pod may get these GPUs. `berth k8s lend` and `reclaim` write the file. `berth-k8s`
// locks it while it gives a device to a pod, so a closed device is never given to a pod.
#pragma once

#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "engines/kube_devices.hpp"

namespace berth::engines {

/// KubeUnit::fault of a unit that is in Berth's own queue.
inline constexpr const char* kOwnQueueFault = "own-queue";

class OwnQueue {
 public:
  /// `state`: the state folder.
  explicit OwnQueue(std::string state) : state_(std::move(state)) {}

  /// Creates the state folder for this user alone. An existing folder keeps its permissions. It is
  /// refused if other users may write to it, because they could replace its files. `command`: the
  /// command that uses the folder, for the error's hint. Fails with kUnavailable (E0514).
  [[nodiscard]] Status make_folder(const std::string& command) const;
  /// The units that are closed for pods. Fails with kUnavailable (E1081) if the file cannot be read
  /// or is damaged; the caller must then treat all units as closed.
  [[nodiscard]] Result<std::vector<std::string>> units() const;
  /// Stores that these units are closed for pods, or open again. Waits until no process has a
  /// result of hold(). If the file is damaged and `closed` is true, the new file lists only these
  /// units. Fails with kUnavailable (E1081).
  [[nodiscard]] Status set(const std::vector<std::string>& units, bool closed) const;
  /// Locks the file: no unit can be closed while the returned descriptor is open. Fails with
  /// kUnavailable (E1081).
  [[nodiscard]] Result<Descriptor> hold() const;
  /// Marks the closed units as unhealthy. If the file is damaged, marks all units.
  void apply(std::vector<KubeUnit>& units) const;

 private:
  [[nodiscard]] Result<Descriptor> lock(int how) const;
  std::string state_;
};

}  // namespace berth::engines
