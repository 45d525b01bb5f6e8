// Removes the ResourceSlices that a renamed node has left under its former name. Kubernetes deletes
// them only together with the old node. Until then, the old and the new slices describe the same
// GPUs. So the driver stores the name of its node.
#pragma once

#include <string>

#include "base/result.hpp"
#include "kubelet/api_client.hpp"

namespace berth::kubelet {

inline constexpr const char* kSlices = "/apis/resource.k8s.io/v1/resourceslices";
/// The path that lists the slices of this driver for a node.
[[nodiscard]] std::string slices_of_node(const std::string& node);

struct NodeFacts {
  std::string uid;
  std::string machine;  // the firmware's identifier of the machine; "" if it is not known
};
/// Reads a node of the cluster. Fails with kNotFound (E1076) if there is no such node, and with
/// kUnavailable (E0969).
[[nodiscard]] Result<NodeFacts> read_node(const ApiClient& api, const std::string& node);

class FormerName {
 public:
  /// Reads the node's former name from the file STATE/node.
  FormerName(const std::string& state, std::string node);
  /// Removes the slices that this machine published under its former name. Leaves the slices
  /// of another machine, because the state folder may have been copied from it. Does nothing if
  /// there is no former name.
  void remove_slices(const ApiClient& api, const NodeFacts& now);

 private:
  [[nodiscard]] Result<int> remove_all(const ApiClient& api);
  void forget();

  std::string file_, node_, former_, said_;
};

}  // namespace berth::kubelet
