// The devices that the caller's environment allows: those in CUDA_VISIBLE_DEVICES and in the
// variables of other vendors, by the rules of each vendor's runtime. Pure. If any such variable is
// set, jobs choose only from the devices that it names. Vendors whose variable is not set are then
// excluded. TPUs that the user names are not excluded, because a variable of GPUs does not restrict
// TPUs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/device_selector.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

using Unit = model::Selected;  // a device, or one of its partitions

struct Visible {
  bool restricted = false;         // at least one variable that selects devices is set
  std::vector<Unit> units;         // the units that are visible; valid only if `restricted`
  std::string variables;           // the variables for messages: "CUDA_VISIBLE_DEVICES=0,1"
  bool hides_all = true;           // all variables that are set mean "no device"
  std::vector<std::string> notes;  // translated notes about ambiguous or ignored values

  /// Whether a partition is visible, that is, whether it or its whole device is in `units`.
  [[nodiscard]] bool allows(int device, const std::string& partition) const;
};

/// Copies the caller's variables that select devices into the request.
void inherit_visibility(model::Request& request,
                        const std::map<std::string, std::string>& environment);

[[nodiscard]] Visible inherited_visibility(const model::Request& request,
                                           const model::Snapshot& snapshot);

/// The devices of one vendor by PCI address, which is the order of the vendor's runtime. For
/// kGoogle they are TPUs, for all others GPUs. OpenCL devices are not included.
[[nodiscard]] std::vector<const model::Device*> devices_of(const model::Snapshot& snapshot,
                                                           model::Vendor vendor);

}  // namespace berth::policy
