// What the caller's environment already allows: the devices that CUDA_VISIBLE_DEVICES and the other
// vendors' variables name, read as the vendor's own runtime reads them. Pure. A variable that is
// set is the set to choose within; vendors without one are then out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/device_selector.hpp"
#include "model/run.hpp"
#include "model/snapshot.hpp"

namespace berth::policy {

using Unit = model::Selected;  // a device, or one partition of it

struct Visible {
  bool restricted = false;  // at least one variable is set
  std::vector<Unit> units;  // meaningful only where restricted
  std::string variables;    // "CUDA_VISIBLE_DEVICES=0,1": for people, printable
  bool hides_all = true;    // each of these values is the one that means "none"
  std::vector<std::string>
      notes;  // sentences for people, translated: what was ambiguous or ignored

  /// A partition is visible where it is named itself or its whole device is.
  [[nodiscard]] bool allows(int device, const std::string& partition) const;
};

/// Notes in the request what the caller's environment makes visible.
void inherit_visibility(model::Request& request,
                        const std::map<std::string, std::string>& environment);

[[nodiscard]] Visible inherited_visibility(const model::Request& request,
                                           const model::Snapshot& snapshot);

/// The GPUs (for kGoogle: the TPUs) of one vendor as its runtime numbers them: by PCI address.
/// OpenCL devices are not among them.
[[nodiscard]] std::vector<const model::Device*> devices_of(const model::Snapshot& snapshot,
                                                           model::Vendor vendor);

}  // namespace berth::policy
