// What makes a device busy: one rule for berth run and for the screens.
#pragma once

#include "model/snapshot.hpp"

namespace berth::model {

/// The process makes its device busy: it computes, or draws with much memory.
[[nodiscard]] bool makes_busy(const DeviceProcess& process, const Device& device);
/// Whether the device holds as much memory as real work needs that belongs to no visible process: a
/// dying one, or one in another container.
[[nodiscard]] bool holds_unaccounted(const Device& device, const Snapshot& snapshot);
/// As above, and therefore counts as busy. Not in WSL: there the desktop of Windows always holds
/// some, and the driver lists no process, so every machine would look busy.
[[nodiscard]] bool has_unseen_users(const Device& device, const Snapshot& snapshot);

}  // namespace berth::model
