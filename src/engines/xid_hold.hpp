// Marks a GPU as unhealthy at once when it reports a fatal Xid, and as healthy after several scans
// without a fault. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engines/kube_devices.hpp"
#include "model/xid_event.hpp"

namespace berth::engines {

class XidHold {
 public:
  /// `looks`: the number of scans without a fault after which the GPU is healthy.
  explicit XidHold(int looks) : looks_(looks) {}

  /// Xids that are faults of the application are ignored. Returns whether one was fatal.
  bool add(const std::vector<model::XidEvent>& events);
  /// Changes the result of a scan: marks the GPUs with a fatal Xid, also their MIG slices.
  void apply(std::vector<KubeUnit>& units);

 private:
  struct Held {
    int code = 0, left = 0;
  };
  int looks_;
  std::map<std::string, Held> held_;  // held GPUs by PCI address, without the function
};

}  // namespace berth::engines
