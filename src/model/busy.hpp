// What makes a device busy. `berth run` and all displays use this rule.
#pragma once

#include "model/snapshot.hpp"

namespace berth::model {

/// Whether the process makes its device busy: it computes, or it draws and uses much memory.
[[nodiscard]] bool makes_busy(const DeviceProcess& process, const Device& device);
/// Whether memory is in use on the device that belongs to no visible process, as much as real work
/// needs. Its process may be ending, or in another container.
[[nodiscard]] bool holds_unaccounted(const Device& device, const Snapshot& snapshot);
/// Whether holds_unaccounted() makes the device busy. It does not in WSL: there the desktop of
/// Windows always uses some memory, and the driver lists no process, so every machine would look
/// busy.
[[nodiscard]] bool has_unseen_users(const Device& device, const Snapshot& snapshot);

}  // namespace berth::model
