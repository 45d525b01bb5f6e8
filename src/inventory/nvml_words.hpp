// The identifier, sentence and hint for each way in which NVIDIA's driver as a whole can fail.
#pragma once

#include <chrono>
#include <string>

#include "inventory/nvml_frames.hpp"
#include "model/snapshot.hpp"

namespace berth::inventory {

/// For a child that reported why it ended.
void describe_failure(const frames::Failed& failed, const std::string& library,
                      model::Driver& driver);
/// For a child that `signal` killed. 0: it exited without a message; -1: unknown.
void describe_death(int signal, model::Driver& driver);
/// For a child that sent no data in time. If `loaded`, the library was loaded, so its
/// initialization hung.
void describe_silence(bool loaded, std::chrono::milliseconds waited, model::Driver& driver);
/// For a driver that is initialized, but whose devices did not answer.
void describe_silent_devices(std::chrono::milliseconds waited, model::Driver& driver);
/// For a child that could not be started.
void describe_no_child(model::Driver& driver);

}  // namespace berth::inventory
