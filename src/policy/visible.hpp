// What the caller's environment allows: the devices in CUDA_VISIBLE_DEVICES and the variables of
// other vendors, read as the vendor's runtime reads them. Pure. If any such variable is set, jobs
// choose only from the devices it names. Vendors whose variable is not set are then excluded. TPUs
// that the user names are not excluded, because a variable of GPUs does not restrict TPUs.
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
  bool restricted = false;         // at least one of the variables is set
  std::vector<Unit> units;         // the units that are visible; valid only if `restricted`
  std::string variables;           // "CUDA_VISIBLE_DEVICES=0,1": printable
  bool hides_all = true;           // every variable that is set has a value that means "no device"
  std::vector<std::string> notes;  // translated sentences: what was ambiguous or ignored

  /// Whether a partition is visible, that is, whether it or its whole device is in `units`.
  [[nodiscard]] bool allows(int device, const std::string& partition) const;
};

/// Records in the request what the caller's environment makes visible.
void inherit_visibility(model::Request& request,
                        const std::map<std::string, std::string>& environment);

[[nodiscard]] Visible inherited_visibility(const model::Request& request,
                                           const model::Snapshot& snapshot);

/// The devices of one vendor, in the order in which its runtime numbers them: by PCI address. GPUs,
/// or TPUs for kGoogle; OpenCL devices are not included.
[[nodiscard]] std::vector<const model::Device*> devices_of(const model::Snapshot& snapshot,
                                                           model::Vendor vendor);

}  // namespace berth::policy
