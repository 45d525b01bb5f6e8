// The error id, the sentence and the hint for each way in which NVIDIA's driver as a whole can
// fail.
#pragma once

#include <chrono>
#include <string>

#include "inventory/nvml_frames.hpp"
#include "model/snapshot.hpp"

namespace berth::inventory {

/// Describes the failure of a child that reported why it ended.
void describe_failure(const frames::Failed& failed, const std::string& library,
                      model::Driver& driver);
/// Describes the death of a child by `signal`. 0: the child exited without a message; -1: unknown.
void describe_death(int signal, model::Driver& driver);
/// Describes a child that sent no data in time. If `loaded`, the library was loaded and its
/// initialization hung.
void describe_silence(bool loaded, std::chrono::milliseconds waited, model::Driver& driver);
/// Describes a driver that is initialized, but whose devices did not answer.
void describe_silent_devices(std::chrono::milliseconds waited, model::Driver& driver);
/// Describes the failure to start a child.
void describe_no_child(model::Driver& driver);

}  // namespace berth::inventory
