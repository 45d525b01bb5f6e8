// Writes the simulated machine's /sys, and /proc/PID/fdinfo for GPUs of AMD and Intel. These are
// regular files in BERTH_SIM_DIR, which Berth reads instead of the kernel's files. CPUs and host
// memory are not simulated.
#pragma once

#include "base/result.hpp"
#include "sim/folder.hpp"
#include "wire/sim_load.hpp"

namespace berth::sim {

/// Writes BERTH_SIM_DIR/sys and BERTH_SIM_DIR/proc. `bound` tells whether the devices are bound to
/// a kernel driver.
[[nodiscard]] Status write_sysfs(const Folder& folder, const wire::sim::View& view,
                                 bool nvidia_bound);
/// Whether any value in the tree changes over time.
[[nodiscard]] bool sysfs_moves(const wire::sim::View& view);
/// Updates the values that change. Errors are ignored: readers see the old values until the next
/// update.
void refresh_sysfs(const Folder& folder, const wire::sim::View& view, std::uint64_t now);

}  // namespace berth::sim
