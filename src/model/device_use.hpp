// Whether a device can say that it is free.
#pragma once

#include "model/device.hpp"

namespace berth::model {

/// The driver refused or failed to say whether it is in use: it must not pass for free.
[[nodiscard]] bool use_unknown(const Device& device);

}  // namespace berth::model
