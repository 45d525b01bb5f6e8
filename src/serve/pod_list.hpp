// PodList: which containers of Kubernetes have which devices, as the kubelet of this node says. It
// is asked in a thread by `berth-k8s pods`, because gRPC is not a part of this program. There is no
// thread where the machine has no kubelet.
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

/// What `berth-k8s pods` printed. Empty if that is not a list.
[[nodiscard]] std::vector<watch::DevicePod> device_pods(const std::string& json);

class PodList {
 public:
  /// Called in a thread of its own, with each list that differs from the one before. An empty list:
  /// the kubelet does not answer, or no container has a device.
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
  std::thread thread_;  // last: it uses the other members
};

}  // namespace berth::serve
