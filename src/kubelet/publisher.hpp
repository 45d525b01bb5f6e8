// Publishes this node's GPUs as ResourceSlices. The kubelet deletes these slices when it starts,
// and half a minute after the driver's socket was closed. So the publisher compares them regularly,
// and publishes them again if they are missing.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engines/kube_claim.hpp"
#include "kubelet/api_client.hpp"
#include "kubelet/claims.hpp"
#include "kubelet/devices.hpp"
#include "kubelet/former_name.hpp"

namespace berth::kubelet {

class Publisher {
 public:
  Publisher(ApiSettings api, std::string node, int shares, const Devices& devices,
            const Claims& claims, const std::string& state);
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;
  /// Call this after the kubelet has registered the driver. The publisher then compares the slices
  /// several times in the next minute.
  void look_again();

 private:
  void run();
  /// Publishes the slices if the API server's copies are missing or differ. Returns false if this
  /// failed. The failure is logged only if it differs from `said_`, the last one.
  bool publish();
  [[nodiscard]] Status put_all();
  [[nodiscard]] Status read_own_node();
  /// Returns the slices to publish. The first call asks the API server whether it can divide
  /// devices among claims, and whether it keeps taints.
  [[nodiscard]] Result<std::vector<engines::Slice>> wanted();
  [[nodiscard]] Status find_features(const std::vector<engines::KubeUnit>& units);
  /// Whether the API server supports a feature. Sends a trial slice that uses the feature's field.
  /// `has` tells whether the answer still has that field.
  [[nodiscard]] Result<bool> is_kept(const std::vector<engines::Slice>& slices,
                                     std::optional<bool> (*has)(const std::string& json));
  void use_single_shares();
  void use_no_taints();
  [[nodiscard]] Status write(const engines::Slice& slice, std::uint64_t generation,
                             std::size_t count, const engines::PublishedSlice* before,
                             bool& is_stale);
  bool wait(std::chrono::milliseconds at_most, std::uint64_t known, std::uint64_t asked);

  const std::string node_;
  FormerName former_;
  const int shares_;
  const Devices& devices_;
  const Claims& claims_;
  mutable std::mutex lock_;
  std::condition_variable changed_;
  bool ending_ = false;
  int looks_ = 0;            // how many of the comparisons after a registration remain
  std::uint64_t asked_ = 0;  // number of calls of look_again() so far
  /// Whether the API server keeps allowMultipleAllocations; nullopt: not asked yet.
  std::optional<bool> consumable_;
  std::optional<bool> taints_;  // whether the API server keeps taints; nullopt: not asked yet
  NodeFacts facts_;
  std::string said_;
  std::vector<std::string> withheld_;  // names of the withheld units that were last logged
  ApiClient api_;
  std::thread thread_;
};

}  // namespace berth::kubelet
