// The GPUs of a Kubernetes node that are in Berth's own queue, so that no pod may get them: a file
// in the state folder of `berth-k8s`. `berth k8s lend` and `reclaim` write it. `berth-k8s` holds
// its lock while it gives a device to a pod, so a device is never given after it was closed.
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

  /// Creates the state folder for this user alone. An existing one keeps its permissions, and is
  /// refused if others may write to it, because they could replace its files. `command`: the
  /// command that uses the folder; the hint of the error contains it. Fails with kUnavailable
  /// (E0514).
  [[nodiscard]] Status make_folder(const std::string& command) const;
  /// The units that are closed for pods. Fails with kUnavailable (E1081) if the file cannot be read
  /// or is damaged: then any unit may be closed.
  [[nodiscard]] Result<std::vector<std::string>> units() const;
  /// Writes to the file that these units are closed for pods, or open again. Waits while another
  /// process keeps the result of `hold()`. If the file is damaged and `closed` is true, the new
  /// file lists only these units. Fails with kUnavailable (E1081).
  [[nodiscard]] Status set(const std::vector<std::string>& units, bool closed) const;
  /// While the result exists, no unit can be closed. Fails with kUnavailable (E1081).
  [[nodiscard]] Result<Descriptor> hold() const;
  /// Marks the closed units as unhealthy. If it is unknown which units are closed, marks all.
  void apply(std::vector<KubeUnit>& units) const;

 private:
  [[nodiscard]] Result<Descriptor> lock(int how) const;
  std::string state_;
};

}  // namespace berth::engines
