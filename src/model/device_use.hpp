// Whether a device is a GPU, which word to use for it, and whether its use is known.
#pragma once

#include <string_view>

#include "model/device.hpp"

namespace berth::model {

/// The driver refused or failed to say whether the device is in use, so it must not count as free.
[[nodiscard]] bool use_unknown(const Device& device);

/// A reason in Device::health_reasons: Berth cannot use a GPU of a known vendor, because its driver
/// fails.
inline constexpr std::string_view kOutOfReach = "driver_unreachable";
[[nodiscard]] bool out_of_reach(const Device& device);

/// Whether the device gives no readings: it is lost, does not answer, or the driver refuses.
[[nodiscard]] bool mute(const Device& device);
/// Whether it is unknown which processes use the device: use_unknown(), or the process list could
/// not be read.
[[nodiscard]] bool users_unknown(const Device& device);
/// Whether the device is a GPU, TPU or other accelerator that can be assigned to a job.
[[nodiscard]] bool is_gpu(const Device& device);
/// Whether the device is integrated graphics of AMD or Intel. Jobs can use it, but on a machine
/// that also has a card, "a GPU" means the card.
[[nodiscard]] bool processor_graphics(const Device& device);
/// The kind in words, translated: "GPU", "TPU", "accelerator", "OpenCL", "CPU".
[[nodiscard]] std::string_view word_for(DeviceKind kind);

}  // namespace berth::model
