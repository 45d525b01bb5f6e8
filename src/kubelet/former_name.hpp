// A node that is renamed keeps its ResourceSlices under its former name until Kubernetes deletes
// that node. These slices describe the same GPUs as the new ones. So the driver stores the name of
// its node, and removes the slices of the former name.
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
/// Fails with kNotFound (E1076) if the cluster has no such node, and with kUnavailable (E0969).
[[nodiscard]] Result<NodeFacts> read_node(const ApiClient& api, const std::string& node);

class FormerName {
 public:
  /// Reads the former name from STATE/node.
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
