// Whether a device is a GPU, the word for its kind, and whether it is known who uses it.
#pragma once

#include <string_view>

#include "model/device.hpp"

namespace berth::model {

/// Whether the driver failed to tell if the device is in use. Then it must not count as free.
[[nodiscard]] bool use_unknown(const Device& device);

/// A value in Device::health_reasons. Berth knows this kind of GPU, but cannot use it because its
/// driver fails.
inline constexpr std::string_view kOutOfReach = "driver_unreachable";
[[nodiscard]] bool out_of_reach(const Device& device);

/// Whether the device gives no readings, because it is lost or does not answer, or because the
/// driver refuses.
[[nodiscard]] bool mute(const Device& device);
/// Whether it is unknown which processes use the device: use_unknown() is true, or the list of
/// processes could not be read.
[[nodiscard]] bool users_unknown(const Device& device);
/// Whether the device is a GPU, TPU or other accelerator that can be assigned to a job.
[[nodiscard]] bool is_gpu(const Device& device);
/// Whether the device is graphics integrated into an AMD or Intel processor. Jobs can use it. But
/// if the machine also has a graphics card, only the card counts as a GPU.
[[nodiscard]] bool processor_graphics(const Device& device);
/// The translated word for a kind of device: "GPU", "TPU", "accelerator", "OpenCL", "CPU".
[[nodiscard]] std::string_view word_for(DeviceKind kind);

}  // namespace berth::model
