// The identifier, sentence and hint for each way in which NVIDIA's driver as a whole can fail.
#pragma once

#include <chrono>
#include <string>

#include "inventory/nvml_frames.hpp"
#include "model/snapshot.hpp"

namespace berth::inventory {

/// The child reported why it ended.
void describe_failure(const frames::Failed& failed, const std::string& library,
                      model::Driver& driver);
/// `signal` killed the child (0: it exited without a message, -1: unknown).
void describe_death(int signal, model::Driver& driver);
/// No data arrived in time. `loaded`: the library was loaded, so initialization hung.
void describe_silence(bool loaded, std::chrono::milliseconds waited, model::Driver& driver);
/// The driver is initialized, but no device answered.
void describe_silent_devices(std::chrono::milliseconds waited, model::Driver& driver);
/// The child could not be started.
void describe_no_child(model::Driver& driver);

}  // namespace berth::inventory
