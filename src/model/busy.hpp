// The rule that decides whether a device is busy. `berth run` and all displays use it.
#pragma once

#include "model/snapshot.hpp"

namespace berth::model {

/// Whether the process makes its device busy: it computes, or it draws and uses much memory.
[[nodiscard]] bool makes_busy(const DeviceProcess& process, const Device& device);
/// Whether the device has used memory that belongs to no visible process, and that is large enough
/// for a computation. Its process may be ending, or be in another container.
[[nodiscard]] bool holds_unaccounted(const Device& device, const Snapshot& snapshot);
/// Whether holds_unaccounted() makes the device busy. Not in WSL: there, the Windows desktop always
/// uses some memory and the driver lists no process, so every machine would look busy.
[[nodiscard]] bool has_unseen_users(const Device& device, const Snapshot& snapshot);

}  // namespace berth::model
