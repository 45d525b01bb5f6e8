// Whether a device is a GPU, what to call it, and whether its use is known.
#pragma once

#include <string_view>

#include "model/device.hpp"

namespace berth::model {

/// The driver refused or failed to say whether the device is in use, so it must not count as free.
[[nodiscard]] bool use_unknown(const Device& device);

/// In health_reasons of a GPU from a known vendor that is unmanaged because its driver fails.
inline constexpr std::string_view kOutOfReach = "driver_unreachable";
[[nodiscard]] bool out_of_reach(const Device& device);

/// It gives no readings: lost, does not answer, or refuses as above.
[[nodiscard]] bool mute(const Device& device);
/// Its processes are unknown: as above, or the process list could not be read.
[[nodiscard]] bool users_unknown(const Device& device);
/// A GPU, TPU or other accelerator that can be assigned to a job.
[[nodiscard]] bool is_gpu(const Device& device);
/// "GPU", "TPU", "accelerator", "OpenCL", "CPU", translated.
[[nodiscard]] std::string_view word_for(DeviceKind kind);

}  // namespace berth::model
