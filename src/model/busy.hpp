// What makes a device busy. `berth run` and all displays use this rule.
#pragma once

#include "model/snapshot.hpp"

namespace berth::model {

/// Whether the process makes its device busy: it computes, or it draws and uses much memory.
[[nodiscard]] bool makes_busy(const DeviceProcess& process, const Device& device);
/// Whether the device has memory in use that belongs to no visible process, and as much as a
/// computation needs. The process that owns it may be ending, or be in another container.
[[nodiscard]] bool holds_unaccounted(const Device& device, const Snapshot& snapshot);
/// Whether holds_unaccounted() makes the device busy. In WSL it does not: the Windows desktop
/// always uses some memory there, and the driver lists no process, so every machine would look
/// busy.
[[nodiscard]] bool has_unseen_users(const Device& device, const Snapshot& snapshot);

}  // namespace berth::model
