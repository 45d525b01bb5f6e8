// Keeps this node's ResourceSlices as they should be. The kubelet deletes them when it starts, and
// half a minute after the driver's socket has closed; so they are compared again and again.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "engines/kube_claim.hpp"
#include "kubelet/api_client.hpp"
#include "kubelet/devices.hpp"

namespace berth::kubelet {

class Publisher {
 public:
  Publisher(ApiSettings api, std::string node, int shares, const Devices& devices);
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;
  /// The kubelet has (re)registered the driver: compares several times in the next minute.
  void look_again();

 private:
  void run();
  /// Whether the API server has what it should have. `said_`: the last failure that was reported.
  bool publish();
  [[nodiscard]] Status put_all();
  [[nodiscard]] Status write(const engines::Slice& slice, std::uint64_t generation,
                             std::size_t count, const std::string& version, bool& is_stale);
  bool wait(std::chrono::milliseconds at_most);

  const std::string node_;
  const int shares_;
  const Devices& devices_;
  mutable std::mutex lock_;
  std::condition_variable changed_;
  bool ending_ = false;
  int looks_ = 0;           // quick comparisons that are left
  bool consumable_ = true;  // until the API server drops allowMultipleAllocations
  std::string node_uid_, said_;
  ApiClient api_;
  std::thread thread_;
};

}  // namespace berth::kubelet
