// What a simulated machine shows under /sys, and under /proc/PID/fdinfo for AMD's and Intel's GPUs:
// plain files in BERTH_SIM_DIR, which Berth reads in place of the kernel's. Host processors and
// memory stay the real ones.
#pragma once

#include "base/result.hpp"
#include "sim/folder.hpp"
#include "wire/sim_load.hpp"

namespace berth::sim {

/// Writes BERTH_SIM_DIR/sys and BERTH_SIM_DIR/proc. `bound`: a kernel driver holds the devices.
[[nodiscard]] Status write_sysfs(const Folder& folder, const wire::sim::View& view,
                                 bool nvidia_bound);
/// Whether anything in the tree moves with time.
[[nodiscard]] bool sysfs_moves(const wire::sim::View& view);
/// Writes again what moves. Errors are left for the next time: a reader keeps the old values.
void refresh_sysfs(const Folder& folder, const wire::sim::View& view, std::uint64_t now);

}  // namespace berth::sim
