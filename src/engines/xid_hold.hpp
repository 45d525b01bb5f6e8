// Marks a GPU as unhealthy as soon as it reports a fatal Xid. Marks it as healthy again after
// several scans without a fault. Pure.
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

  /// Adds Xids. Those that are faults of the application are ignored. Returns whether an added Xid
  /// was fatal.
  bool add(const std::vector<model::XidEvent>& events);
  /// Changes the result of a scan: marks the GPUs that had a fatal Xid, and their MIG slices, as
  /// unhealthy.
  void apply(std::vector<KubeUnit>& units);

 private:
  struct Held {
    int code = 0, left = 0;
  };
  int looks_;
  /// GPUs that are marked as unhealthy, by PCI address without the function.
  std::map<std::string, Held> held_;
};

}  // namespace berth::engines
