// What a device is to a user: a GPU or none, by its kind's word, and whether it can say that it is
// free.
#pragma once

#include <string_view>

#include "model/device.hpp"

namespace berth::model {

/// The driver refused or failed to say whether it is in use: it must not pass for free.
[[nodiscard]] bool use_unknown(const Device& device);

/// A GPU of a maker that Berth knows, unmanaged because its driver fails. Its health_reasons say
/// so.
inline constexpr std::string_view kOutOfReach = "driver_unreachable";
[[nodiscard]] bool out_of_reach(const Device& device);

/// It cannot say who uses it: lost, without an answer, or as above.
[[nodiscard]] bool mute(const Device& device);
/// A GPU, TPU or other accelerator that a job can be given.
[[nodiscard]] bool is_gpu(const Device& device);
/// "GPU", "TPU", "accelerator", "OpenCL", "CPU", translated.
[[nodiscard]] std::string_view word_for(DeviceKind kind);

}  // namespace berth::model
