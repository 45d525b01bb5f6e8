// One call of NVIDIA's driver in a forked child, because a call can hang or crash. Use it for calls
// that are rare or change something; nvml_child.hpp is for the regular reading of devices.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace berth::inventory {

/// Runs `work` in a child and returns its result; nullopt if the child sent no result in time.
[[nodiscard]] std::optional<std::string> call_in_child(std::chrono::milliseconds at_most,
                                                       const std::function<std::string()>& work);

}  // namespace berth::inventory
