// PodList: which Kubernetes containers have which devices, according to this node's kubelet. A
// thread runs `berth-k8s pods` to ask the kubelet, because this program does not contain gRPC. If
// the machine has no kubelet, there is no thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "watch/metrics.hpp"

namespace berth::serve {

inline constexpr const char* kKubeletFolder = "/var/lib/kubelet";

/// Parses the output of `berth-k8s pods`. Returns an empty list if the output is not a list.
[[nodiscard]] std::vector<watch::DevicePod> device_pods(const std::string& json);

class PodList {
 public:
  /// Called in a separate thread with each list that differs from the previous one. The list is
  /// empty if the kubelet does not answer, or if no container has a device.
  using Changed = std::function<void(std::vector<watch::DevicePod>)>;

  PodList(std::string kubelet, Changed changed);
  ~PodList();
  PodList(const PodList&) = delete;
  PodList& operator=(const PodList&) = delete;

 private:
  void work();

  std::string kubelet_, program_;
  Changed changed_;
  std::mutex mutex_;
  std::condition_variable ending_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;  // declared last, because it uses the other members
};

}  // namespace berth::serve
